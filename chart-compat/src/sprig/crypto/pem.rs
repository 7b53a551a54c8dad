//! PEM blocks as Go's `encoding/pem` encodes and decodes them.

use super::super::base::{decode64, encode64};

/// A block's type and content. Headers are ignored.
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) bytes: Vec<u8>,
}

/// `pem.Encode`
pub(super) fn encode(kind: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("-----BEGIN {kind}-----\n").into_bytes();
    for line in encode64(bytes).chunks(64) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(format!("-----END {kind}-----\n").as_bytes());
    out
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// The first complete block (`pem.Decode`): it begins at the start of a line, and its end line has the same type.
pub(super) fn decode(data: &[u8]) -> Option<Block> {
    let lines: Vec<&[u8]> = data.split(|b| *b == b'\n').collect();
    let mut begin = None;
    for (n, line) in lines.iter().enumerate() {
        if line.starts_with(BEGIN) {
            begin = Some(n);
        } else if line.starts_with(END)
            && let Some(found) = begin.take()
            && let Some(block) = block(&lines[found..=n])
        {
            return Some(block);
        }
    }
    None
}

/// A line without trailing white space.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let end = line.iter().rposition(|b| !matches!(b, b' ' | b'\t')).map_or(0, |n| n + 1);
    &line[..end]
}

fn block(lines: &[&[u8]]) -> Option<Block> {
    let (first, rest) = lines.split_first()?;
    let (last, body) = rest.split_last()?;
    let kind = trimmed(first).strip_prefix(BEGIN)?.strip_suffix(DASHES)?;
    let end = last.strip_prefix(END)?.strip_prefix(kind)?;
    if trimmed(end) != DASHES {
        return None;
    }
    // Headers are the lines with a colon at the start of the block.
    let headers = body.iter().take_while(|l| l.contains(&b':')).count();
    let text: Vec<u8> = body[headers..].concat().into_iter().filter(|b| !matches!(b, b' ' | b'\t')).collect();
    let bytes = decode64(&text).ok()?;
    Some(Block { kind: String::from_utf8_lossy(kind).into_owned(), bytes })
}
