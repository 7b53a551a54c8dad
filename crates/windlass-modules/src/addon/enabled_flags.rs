//! Which flag of several says whether a module is on. Pure.
//!
//! addon-operator calls the sources of flags extenders and lets `--applied-module-extenders` choose and order them; ours are
//! those of its stock loader, and `ModuleValues`, which was one up to its version 1.3. What `enabled` scripts say comes on
//! top, wherever they stand in the list: they can only switch off.

use std::collections::BTreeMap;
use std::str::FromStr;

use chart_compat::data::{Data, Map};

use super::module_name::ModuleName;

/// A source of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extender {
    /// `<module>Enabled` in the `values.yaml` of the roots.
    Static,
    /// The same in the module's own `values.yaml`.
    ModuleValues,
    /// What global hooks patched.
    DynamicallyEnabled,
    /// The ConfigMap.
    KubeConfig,
    /// The module's `enabled` script.
    ScriptEnabled,
}

const ALL: [(&str, Extender); 5] = [
    ("Static", Extender::Static),
    ("ModuleValues", Extender::ModuleValues),
    ("DynamicallyEnabled", Extender::DynamicallyEnabled),
    ("KubeConfig", Extender::KubeConfig),
    ("ScriptEnabled", Extender::ScriptEnabled),
];

/// The sources that count, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enabling(Vec<Extender>);

impl Default for Enabling {
    fn default() -> Self {
        Self(vec![
            Extender::Static,
            Extender::DynamicallyEnabled,
            Extender::KubeConfig,
            Extender::ScriptEnabled,
        ])
    }
}

impl FromStr for Enabling {
    type Err = String;

    /// Reads names separated by commas (`Scheduler.ApplyExtenders`); an empty text is the default.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut order = Vec::new();
        for name in text.split(',').map(str::trim) {
            let Some((_, extender)) = ALL.iter().find(|(known, _)| *known == name) else {
                let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
                return Err(format!("there is no extender {name:?}: there are {}", known.join(", ")));
            };
            if order.contains(extender) {
                return Err(format!("the extender {name} is there twice"));
            }
            order.push(*extender);
        }
        Ok(Self(order))
    }
}

/// What the sources say of one module, but for its script.
#[derive(Clone, Copy, Debug)]
pub struct Flags<'a> {
    /// `values.yaml` of the roots.
    pub roots: &'a Map,
    /// The module's own `values.yaml`.
    pub own: Option<bool>,
    /// Global hooks.
    pub hooks: Option<bool>,
    /// The ConfigMap, by module key.
    pub config: &'a BTreeMap<String, bool>,
}

impl Enabling {
    /// Whether a module is on, its script aside: the last source that says something is right, and without any it is off.
    #[must_use]
    pub fn is_on(&self, module: &ModuleName, flags: &Flags<'_>) -> bool {
        let said = |extender: &Extender| match extender {
            Extender::Static => flags.roots.get(&module.enabled_key()).and_then(Data::as_bool),
            Extender::ModuleValues => flags.own,
            Extender::DynamicallyEnabled => flags.hooks,
            Extender::KubeConfig => flags.config.get(&module.key).copied(),
            Extender::ScriptEnabled => None,
        };
        self.0.iter().rev().find_map(said).unwrap_or(false)
    }

    /// Whether `enabled` scripts run.
    #[must_use]
    pub fn asks_scripts(&self) -> bool {
        self.0.contains(&Extender::ScriptEnabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_says_something_is_right() {
        let module = ModuleName::parse("010-web-site", 1).unwrap();
        let on = |order: &str, root: Option<bool>, own, hooks, config: Option<bool>| {
            let roots: Map = root.map(|r| ("webSiteEnabled".to_owned(), Data::Bool(r))).into_iter().collect();
            let config = config.map(|c| ("webSite".to_owned(), c)).into_iter().collect();
            let flags = Flags { roots: &roots, own, hooks, config: &config };
            order.parse::<Enabling>().unwrap().is_on(&module, &flags)
        };
        let (yes, no) = (Some(true), Some(false));
        assert!(!on("", None, yes, None, None), "the module's own flag says nothing by default");
        assert!(on("", yes, None, None, None));
        assert!(!on("", yes, None, no, None));
        assert!(on("", no, None, no, yes));
        let old = "Static,ModuleValues,KubeConfig,DynamicallyEnabled,ScriptEnabled";
        assert!(on(old, no, yes, None, None));
        assert!(!on(old, no, yes, None, no));
        assert!(on(old, no, no, yes, no));
        assert!(!on("KubeConfig", yes, yes, yes, None));
        assert!(!"KubeConfig".parse::<Enabling>().unwrap().asks_scripts());
        let wrong = |text: &str| text.parse::<Enabling>().unwrap_err();
        assert!(
            wrong("Static,Kubeconfig").starts_with("there is no extender \"Kubeconfig\": there are Static, ")
        );
        assert_eq!(wrong("Static,KubeConfig,Static"), "the extender Static is there twice");
    }
}
