//! The sources of generated data: lines, literals and files.
//!
//! Owns their forms, and that no key stands twice.

use std::collections::BTreeMap;

use super::Load;
use crate::error::Error;
use crate::kustomization::GeneratorArgs;
use crate::load::base;

/// Keys and values.
type Pairs = Vec<(String, Vec<u8>)>;

/// The longest line that kustomize reads; a longer one ends a file.
const MAX_LINE: usize = 64 * 1024;

pub(super) fn read(args: &GeneratorArgs, load: Load<'_>) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let shown = |list: &[String]| format!("[{}]", list.join(" "));
    let failed = |source: String| move |e: Error| e.within(source).within("loading KV pairs");
    let mut pairs = Pairs::new();
    for path in &args.envs {
        let lines = load(path).and_then(|content| from_lines(&content));
        pairs.extend(lines.map_err(failed(format!("env source files: {}", shown(&args.envs))))?);
    }
    for literal in &args.literals {
        let pair = from_literal(literal);
        pairs.push(pair.map_err(failed(format!("literal sources {}", shown(&args.literals))))?);
    }
    for file in &args.files {
        let pair = from_file(file, load);
        pairs.push(pair.map_err(failed(format!("file sources: {}", shown(&args.files))))?);
    }
    let mut out = BTreeMap::new();
    for (key, value) in pairs {
        if out.contains_key(&key) {
            let name = &args.name;
            return Err(Error::text(format!("configmap {name} illegally repeats the key `{key}`")));
        }
        out.insert(key, value);
    }
    Ok(out)
}

fn from_lines(content: &[u8]) -> Result<Pairs, Error> {
    let mut out = Pairs::new();
    for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
        if line.len() >= MAX_LINE {
            break;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|_| {
            let bytes: Vec<String> = line.iter().map(u8::to_string).collect();
            let text = String::from_utf8_lossy(line);
            Error::text(format!("line [{}] has invalid utf8 bytes : {text}", bytes.join(" ")))
        })?;
        let text = if number == 0 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        let text = text.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        if !key.is_empty() {
            out.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    Ok(out)
}

fn from_literal(literal: &str) -> Result<(String, Vec<u8>), Error> {
    let parts = literal.split_once('=').filter(|(key, _)| !key.is_empty());
    let invalid = || Error::text(format!("invalid literal source {literal}, expected key=value"));
    let (key, value) = parts.ok_or_else(invalid)?;
    Ok((key.to_owned(), unquoted(value).as_bytes().to_vec()))
}

/// Takes one pair of quotes off.
fn unquoted(text: &str) -> &str {
    let inner = |quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn from_file(source: &str, load: Load<'_>) -> Result<(String, Vec<u8>), Error> {
    let (key, path) = match (source.matches('=').count(), source.split_once('=')) {
        (1, Some(("", path))) => {
            let text = format!("missing key name for file path {path:?} in source {source:?}");
            return Err(Error::text(text));
        }
        (1, Some((key, ""))) => {
            let text = format!("missing file path for key name {key:?} in source {source:?}");
            return Err(Error::text(text));
        }
        (1, Some((key, path))) => (key.to_owned(), path),
        (0, _) => (base(source), source),
        _ => return Err(Error::text(format!("source {source:?} key name or file path contains '='"))),
    };
    Ok((key, load(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_pairs() {
        let text = "\u{feff}a=1\r\n  # no\n\n  b = x=y \nbare\n=none\n";
        let read = from_lines(text.as_bytes()).unwrap();
        let shown: Vec<String> =
            read.iter().map(|(k, v)| format!("{k}:{}", String::from_utf8_lossy(v))).collect();
        assert_eq!(shown, ["a:1", "b : x=y ", "bare:"]);
        assert!(from_lines(b"a=\xff").is_err());
    }

    #[test]
    fn literals_lose_one_pair_of_quotes() {
        for (literal, expected) in
            [("a='b'", "b"), ("a=\"'b'\"", "'b'"), ("a='b", "'b"), ("a='", "'"), ("a=", "")]
        {
            assert_eq!(from_literal(literal).unwrap().1, expected.as_bytes(), "{literal}");
        }
        assert!(from_literal("=b").is_err() && from_literal("a").is_err());
    }
}
