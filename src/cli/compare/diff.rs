//! Unified diffs, limited in length and time. For releases they omit the data of Secrets.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, group_diff_ops};

use super::answer::lines;

/// Lines of a diff that are printed without --full.
const SHOWN: usize = 40;
/// The maximal length of a printed line, in characters.
const WIDTH: usize = 400;
/// Context lines around a change.
const CONTEXT: usize = 3;
/// Time limit for a minimal diff.
const PATIENCE: Duration = Duration::from_secs(5);

/// The edit script between two lists of lines.
pub(super) fn operations(a: &[Vec<u8>], b: &[Vec<u8>]) -> Vec<DiffOp> {
    similar::capture_diff_slices_deadline(Algorithm::Myers, a, b, Some(Instant::now() + PATIENCE))
}

/// The unified diff of two texts. With `hide`, lines of Secrets contain only their keys; with `full`, all lines are included.
pub(super) fn unified(helm: &[u8], ours: &[u8], title: &str, hide: bool, full: bool) -> String {
    let split = |text: &[u8]| lines(text).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (a, b) = (split(helm), split(ours));
    let (shown_a, shown_b) = (printed_lines(&a, hide, full), printed_lines(&b, hide, full));
    let mut out = vec![format!("--- helm: {title}"), format!("+++ windlass: {title}")];
    for group in group_diff_ops(operations(&a, &b), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |from: usize, to: usize| match to - from {
            0 => format!("{from},0"),
            1 => format!("{}", from + 1),
            n => format!("{},{n}", from + 1),
        };
        out.push(format!(
            "@@ -{} +{} @@",
            range(first.old_range().start, last.old_range().end),
            range(first.new_range().start, last.new_range().end)
        ));
        for op in &group {
            if op.tag() == DiffTag::Equal {
                out.extend(shown_a[op.old_range()].iter().map(|l| format!(" {l}")));
            } else {
                out.extend(shown_a[op.old_range()].iter().map(|l| format!("-{l}")));
                out.extend(shown_b[op.new_range()].iter().map(|l| format!("+{l}")));
            }
        }
    }
    if !full && out.len() > SHOWN {
        let more = out.len() - SHOWN;
        out.truncate(SHOWN);
        out.push(format!("… {more} more lines (--full shows all)"));
    }
    out.join("\n") + "\n"
}

/// Lines as printed: without line feeds, and without hidden data.
fn printed_lines(lines: &[Vec<u8>], hide: bool, full: bool) -> Vec<String> {
    let mut out = Vec::with_capacity(lines.len());
    let is_separator = |line: &[u8]| line.starts_with(b"---");
    let mut secret = false;
    for document in lines.chunk_by(|_, next| !is_separator(next)) {
        // A document without a kind can be the rest of a value that contains `---`.
        let kinds: Vec<bool> = document.iter().filter_map(|l| names_secret(l)).collect();
        secret = hide && if kinds.is_empty() { secret } else { kinds.contains(&true) };
        let mut section = String::new();
        for line in document {
            let text = String::from_utf8_lossy(line);
            let end = if text.ends_with('\n') { "" } else { " (no line end)" };
            let text = text.trim_end_matches(['\n', '\r']);
            let mut text = if secret { without_value(text, &mut section) } else { text.to_owned() };
            if !full && let Some((at, _)) = text.char_indices().nth(WIDTH) {
                text.truncate(at);
                text.push('…');
            }
            out.push(text + end);
        }
    }
    out
}

/// Whether a line with a kind marks its document as a Secret or a list of Secrets. Hides too much rather than too little.
fn names_secret(line: &[u8]) -> Option<bool> {
    let at = memchr::memmem::find(line, b"kind")?;
    Some(memchr::memmem::find(&line[at..], b"Secret").is_some())
}

/// A line of a Secret with only its key; metadata is kept. `section` is the last key without indentation.
fn without_value(line: &str, section: &mut String) -> String {
    let bare = line.trim_start();
    let indent = &line[..line.len() - bare.len()];
    let key = match bare.split_once(':') {
        Some((key, _)) if !key.contains(['{', '[', '"', '\'', ' ', '#']) => key,
        _ => "",
    };
    if indent.is_empty() && !key.is_empty() {
        key.clone_into(section);
    }
    let named = match section.as_str() {
        "apiVersion" | "kind" | "type" => indent.is_empty(),
        "metadata" => matches!(key, "name" | "namespace"),
        _ => false,
    };
    let simple = !bare.contains(['{', '[']);
    if bare.is_empty() || bare.starts_with("# Source:") || bare.starts_with("---") || named && simple {
        line.to_owned()
    } else if key.is_empty() {
        format!("{indent}(hidden)")
    } else if bare.len() == key.len() + 1 {
        line.to_owned()
    } else {
        format!("{indent}{key}: (hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_unified_and_bounded() {
        let text = unified(b"a\nb\nc\n", b"a\nx\nc", "t", false, false);
        assert_eq!(text, "--- helm: t\n+++ windlass: t\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+x\n+c (no line end)\n");
        let many: String = (0..100).map(|i| format!("{i}\n")).collect();
        let short = unified(many.as_bytes(), b"", "t", false, false);
        assert_eq!(short.lines().count(), SHOWN + 1);
        assert!(short.ends_with("… 63 more lines (--full shows all)\n"), "{short}");
        assert_eq!(unified(many.as_bytes(), b"", "t", false, true).lines().count(), 103);
    }

    #[test]
    fn secrets_show_their_keys_only() {
        let secret = "---\n# Source: c/templates/s.yaml\napiVersion: v1\nkind: Secret\nmetadata:\n  name: s\ndata:\n  \
                      key: aGVsbG8=\n  name: aGVsbG8=\n  block: |\n    aGVsbG8=\n  \"quoted\": aGVsbG8=\nstringData: {a: hello}\n---\nkind: \
                      ConfigMap\ndata:\n  key: plain\n";
        let other =
            secret.replace("aGVsbG8=", "d29ybGQ=").replace("hello", "world").replace("plain", "other");
        let text = unified(secret.as_bytes(), other.as_bytes(), "t", true, true);
        for word in ["aGVsbG8", "d29ybGQ", "hello", "world"] {
            assert!(!text.contains(word), "{text}");
        }
        for word in
            ["-  key: (hidden)\n", "+  key: (hidden)\n", "+    (hidden)\n", "   name: s\n", "-  key: plain\n"]
        {
            assert!(text.contains(word), "{word} in\n{text}");
        }
        let json = "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"data\": {\"k\": \"aGVsbG8=\"}}\n";
        let text = unified(json.as_bytes(), b"", "t", true, true);
        assert!(!text.contains("aGVsbG8"), "{text}");
        assert!(unified(json.as_bytes(), b"", "t", false, true).contains("aGVsbG8"));
    }
}
