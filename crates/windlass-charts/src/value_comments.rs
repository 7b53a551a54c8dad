//! What the comments of a `values.yaml` say of its keys: descriptions, and schemas of helm-schema.
//!
//! Plain text directly above a key describes it. helm-docs' `# -- text` does so with the lines that follow it; a blank comment line and `@`
//! end it. helm-schema's `# @schema` blocks are YAML. Bitnami's `## @param path text` describes a key wherever it stands.

use std::collections::BTreeMap;

use chart_compat::yaml;
use serde_json::Value;

use crate::Object;
use crate::subchart_values::to_json;

/// Longest description, in bytes.
const MAX_DESCRIPTION: usize = 4096;

/// The comment above a key.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct KeyComment {
    /// What it says of the key; empty if nothing.
    pub(crate) description: String,
    /// The schema that it declares.
    pub(crate) schema: Object,
    /// Why a schema cannot be read.
    pub(crate) error: Option<String>,
}

/// Reads the comment above a key. `path`: of the key, such as `image.tag`.
pub(crate) fn read(head: &str, path: &str) -> KeyComment {
    // Only what stands directly above the key is about it.
    let block = head.rsplit("\n\n").next().unwrap_or_default();
    let mut comment = KeyComment::default();
    let (mut lines, mut schema): (Vec<&str>, Option<String>) = (Vec::new(), None);
    let (mut documented, mut ended) = (false, false);
    for line in block.lines() {
        let raw = line.trim_start().trim_start_matches('#');
        let text = raw.trim();
        if text == "@schema" {
            match schema.take() {
                Some(text) => comment.add_schema(&text),
                None => schema = Some(String::new()),
            }
            continue;
        }
        if let Some(schema) = &mut schema {
            schema.push_str(raw.strip_prefix(' ').unwrap_or(raw));
            schema.push('\n');
            continue;
        }
        if let Some(text) = helm_docs(text, path) {
            lines = vec![text];
            (documented, ended) = (true, false);
        } else if text.starts_with('@') || documented && text.is_empty() {
            ended = true;
        } else if !ended && !is_decoration(text) {
            lines.push(text);
        }
    }
    let text = lines.join(" ");
    comment.description = text.split_whitespace().collect::<Vec<_>>().join(" ");
    truncate(&mut comment.description);
    comment
}

impl KeyComment {
    fn add_schema(&mut self, text: &str) {
        let read =
            yaml::from_slice(text.as_bytes()).map_err(|e| e.to_string()).and_then(|data| to_json(&data));
        match read {
            Ok(Value::Object(schema)) => self.schema.extend(schema),
            Ok(Value::Null) => {}
            Ok(_) => self.error = Some("it is not a map".to_owned()),
            Err(error) => self.error = Some(error),
        }
    }
}

/// The text of a line that helm-docs reads: `-- text`, `-- (type) text`, `path -- text`.
fn helm_docs<'t>(text: &'t str, path: &str) -> Option<&'t str> {
    let rest =
        text.strip_prefix("--").or_else(|| text.strip_prefix(path)?.trim_start().strip_prefix("--"))?;
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim();
    let without_type = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    Some(without_type.map_or(rest, |(_, text)| text.trim()))
}

/// The texts of all `## @param path [modifiers] text` lines of a `values.yaml`, by path; `@extra` is the same for keys that it has not.
pub(crate) fn parameters(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.trim_start().strip_prefix('#')) {
        let line = line.trim_start_matches('#').trim_start();
        let Some(rest) = line.strip_prefix("@param ").or_else(|| line.strip_prefix("@extra ")) else {
            continue;
        };
        let (path, rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        // Modifiers are in brackets: `[string, nullable]`, `[default: x]`.
        let rest = rest.trim();
        let text =
            rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(rest, |(_, text)| text);
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        truncate(&mut text);
        if !text.is_empty() {
            found.entry(path.to_owned()).or_insert(text);
        }
    }
    found
}

/// Lines and boxes of one character.
fn is_decoration(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| "-=*#~_+".contains(c))
}

fn truncate(text: &mut String) {
    if text.len() > MAX_DESCRIPTION {
        let end = (0..=MAX_DESCRIPTION - 3).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comments_describe_keys() {
        for (head, expected) in [
            ("# Number of replicas", "Number of replicas"),
            ("## Number of\n## replicas", "Number of replicas"),
            ("# Section\n\n# Number of replicas", "Number of replicas"),
            ("# -- Number of\n# replicas", "Number of replicas"),
            ("# Intern.\n# -- (int) Number of replicas\n# @default -- `1`\n# more", "Number of replicas"),
            ("# a.replicas -- Number of replicas", "Number of replicas"),
            ("# -----------\n# Number of replicas\n# ===", "Number of replicas"),
            ("# @ignored", ""),
            ("# @schema\n# type: integer\n# @schema\n# -- Number of replicas", "Number of replicas"),
            ("", ""),
        ] {
            assert_eq!(read(head, "a.replicas").description, expected, "{head:?}");
        }
        assert_eq!(read(&format!("# {}", "ä".repeat(5000)), "a").description.len(), 4096 - 1);
    }

    #[test]
    fn parameters_are_described_wherever_they_stand() {
        let text = "## @section Image\n## @param image.tag Tag of the image\n## @param image.digest [string, nullable] Digest  of it\n\
            ## @extra image.debug Debug\n# @param image.tag Another text\n## @param image.empty\nimage:\n  ## @param replicas [default: 1] Servers\n\
            \x20 tag: '## @param no.comment x'\n";
        let found = parameters(text);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(
            found,
            [
                ("image.debug", "Debug"),
                ("image.digest", "Digest of it"),
                ("image.tag", "Tag of the image"),
                ("replicas", "Servers"),
            ]
        );
    }

    #[test]
    fn blocks_of_helm_schema_are_yaml() {
        let read = |text: &str| {
            let comment = read(text, "a");
            (Value::Object(comment.schema), comment.error.is_some())
        };
        let block = "# @schema\n# type: object\n# properties:\n#   a: {type: string, enum: [x, z]}\n# required: [a]\n# @schema";
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "z"]}}, "required": ["a"]});
        assert_eq!(read(block), (schema, false));
        assert_eq!(
            read("# @schema\n# minimum: 1\n# @schema\n# @schema\n# maximum: 2\n# @schema"),
            (json!({"minimum": 1, "maximum": 2}), false)
        );
        assert_eq!(read("# @schema type:[string]\n# text"), (json!({}), false));
        assert_eq!(read("# @schema\n# - 1\n# @schema"), (json!({}), true));
        assert_eq!(read("# @schema\n# a: [\n# @schema"), (json!({}), true));
    }
}
