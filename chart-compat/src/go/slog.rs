//! Log lines in the format of Go's `slog.TextHandler`, without a time.
//!
//! Owns the format. The caller decides where the lines go.

use super::strconv;

/// One line: level, message and attributes.
#[must_use]
pub fn line(level: &str, message: &str, attributes: &[(&str, &str)]) -> String {
    let mut out = format!("level={level} msg={}", value(message));
    for (key, text) in attributes {
        out.push_str(&format!(" {key}={}", value(text)));
    }
    out
}

/// A value, quoted if necessary.
fn value(text: &str) -> String {
    let plain = |c: char| !c.is_control() && !matches!(c, ' ' | '"' | '=' | '\u{FFFD}') && !c.is_whitespace();
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        strconv::quote(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn values_are_quoted_where_they_must() {
        let attributes = [("a", "x/y.z"), ("b", ""), ("c", "two words"), ("d", "\"q\""), ("e", "k=v")];
        assert_eq!(
            line("WARN", "plain", &attributes),
            r#"level=WARN msg=plain a=x/y.z b="" c="two words" d="\"q\"" e="k=v""#
        );
    }
}
