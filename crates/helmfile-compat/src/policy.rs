//! The order of keys that helmfile demands of a state file, before it is parsed.
//!
//! Owns the rules on the lines of the text (`policy.Checker`); does not parse YAML.

use super::error::Error;

/// Checks the order of top-level keys: `bases` and `environments` before `releases`, and `environments` and `releases` in different
/// parts.
///
/// # Errors
/// The rule that the text breaks.
pub fn check(file: &str, text: &str) -> Result<(), Error> {
    let keys = top_keys(text, false);
    if keys.is_empty() {
        return Err(Error::Invalid(format!("no top-level config keys are found in {file}")));
    }
    let rank = |key: &str| match key {
        "bases" | "environments" => Some(0),
        "releases" => Some(1),
        _ => None,
    };
    let ordered: Vec<&str> = keys.iter().copied().filter(|key| rank(key).is_some()).collect();
    for pair in ordered.windows(2) {
        if let [before, key] = pair
            && rank(before) > rank(key)
        {
            return Err(Error::Invalid(format!(
                "top-level config key {key} must be defined before {before} in {file}"
            )));
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for key in top_keys(text, true) {
        if key.starts_with("---") || ["environments", "releases"].contains(&key) && !seen.contains(&key) {
            seen.push(key);
        }
    }
    let plain = |key: &&str| *key == "environments" || *key == "releases";
    if seen.windows(2).any(|pair| pair.iter().all(plain)) {
        return Err(Error::Invalid(
            "environments and releases cannot be defined within the same YAML part. Use --- to extract the \
                    environments into a dedicated part"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Top-level keys of letters, and separators if asked for.
fn top_keys(text: &str, separators: bool) -> Vec<&str> {
    let mut keys = Vec::new();
    for line in text.split('\n') {
        let line = line.trim_end();
        if separators && line == "---" {
            keys.push(line);
        }
        if let Some((key, _)) = line.split_once(':')
            && !key.is_empty()
            && key.bytes().all(|b| b.is_ascii_alphabetic())
        {
            keys.push(key);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn keys_come_in_order() {
        assert!(check("f", "environments:\n  a: {}\n---\nreleases: []\n").is_ok());
        assert!(check("f", "bases: []\nreleases: []\n").is_ok());
        for text in ["environments:\nreleases:\n", "releases:\n---\nbases:\n", "# nothing\n"] {
            assert!(check("f", text).is_err(), "{text}");
        }
    }
}
