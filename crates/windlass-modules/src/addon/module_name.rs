//! Module names: order number, name and values key, as addon-operator forms them.

/// The order of a module directory without a number.
pub const UNNUMBERED_ORDER: u32 = 1;

/// What a module directory's name says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleName {
    /// Modules of a lower number are tried first.
    pub order: u32,
    /// The module's name, which is its release's name too.
    pub name: String,
    /// Its key in values: the name in camel case.
    pub key: String,
}

impl ModuleName {
    /// Reads `NNN-name` or `name`; `unnumbered` is the order of the latter.
    ///
    /// # Errors
    /// A name that its camel-case key does not lead back to, or that is not a release name.
    pub fn parse(directory: &str, unnumbered: u32) -> Result<Self, String> {
        let (order, name) = match directory.split_once('-') {
            Some((number, name))
                if !number.is_empty() && !name.is_empty() && number.bytes().all(|c| c.is_ascii_digit()) =>
            {
                let order =
                    number.parse().map_err(|_| format!("{directory:?}: the order number is too large"))?;
                (order, name)
            }
            _ => (unnumbered, directory),
        };
        let key = camel(name);
        let back = kebab(&key);
        if back != name {
            return Err(format!(
                "module directory {directory:?}: the values key {key:?} leads back to {back:?}, not to {name:?}; \
                 rename the module to {back:?}"
            ));
        }
        if let Some(text) = chart_compat::render::release_name_error(name) {
            return Err(format!("module directory {directory:?}: {text}"));
        }
        Ok(Self { order, name: name.to_owned(), key })
    }

    /// The key of the flag that enables it.
    #[must_use]
    pub fn enabled_key(&self) -> String {
        format!("{}Enabled", self.key)
    }

    /// The key that switches its maintenance on.
    #[must_use]
    pub fn maintenance_key(&self) -> String {
        format!("{}Maintenance", self.key)
    }
}

/// `cert-manager-crd` → `certManagerCrd`
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for word in name.split(['-', '_', '.', ' ']).filter(|w| !w.is_empty()) {
        let mut chars = word.chars();
        match chars.next() {
            Some(first) if !out.is_empty() => out.extend(first.to_uppercase()),
            Some(first) => out.extend(first.to_lowercase()),
            None => {}
        }
        out.push_str(chars.as_str());
    }
    out
}

/// `certManagerCrd` → `cert-manager-crd`: a word starts at an upper-case letter after a lower-case one or a digit, and at the
/// last of several upper-case letters before a lower-case one.
pub(super) fn kebab(key: &str) -> String {
    let chars: Vec<char> = key.chars().collect();
    let mut out = String::with_capacity(key.len() + 4);
    for (i, c) in chars.iter().enumerate() {
        if c.is_uppercase() && i > 0 {
            let before = chars[i - 1];
            let next_lower = chars.get(i + 1).is_some_and(|n| n.is_lowercase());
            if !before.is_uppercase() || next_lower {
                out.push('-');
            }
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::ModuleName;

    #[test]
    fn names_keys_and_orders() {
        let table = [
            ("000-global-crds", Ok((0, "global-crds", "globalCrds"))),
            ("100-cert-manager-crd", Ok((100, "cert-manager-crd", "certManagerCrd"))),
            ("module1", Ok((1, "module1", "module1"))),
            ("5-l2-load-balancer", Ok((5, "l2-load-balancer", "l2LoadBalancer"))),
            ("10-2-module-name", Ok((10, "2-module-name", "2ModuleName"))),
            ("001-module-1", Err("rename the module to \"module1\"")),
            ("001-Upper", Err("leads back to \"upper\"")),
        ];
        for (directory, want) in table {
            match (ModuleName::parse(directory, 1), want) {
                (Ok(got), Ok((order, name, key))) => {
                    assert_eq!((got.order, &*got.name, &*got.key), (order, name, key), "{directory}");
                }
                (Err(text), Err(part)) => assert!(text.contains(part), "{directory}: {text}"),
                (got, want) => panic!("{directory}: {got:?} instead of {want:?}"),
            }
        }
    }
}
