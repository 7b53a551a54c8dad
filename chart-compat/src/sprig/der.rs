//! DER and PEM, as far as keys and certificates need them.

use super::base::{decode64, encode64};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// One element: tag, length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let n = content.len();
    if n < 0x80 {
        out.push(u8::try_from(n).unwrap_or(0));
    } else {
        let length = n.to_be_bytes();
        let length = &length[length.iter().take_while(|b| **b == 0).count()..];
        out.push(0x80 | u8::try_from(length.len()).unwrap_or(0));
        out.extend_from_slice(length);
    }
    out.extend_from_slice(content);
    out
}

/// A sequence of elements.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// A whole number that is not negative, by its bytes.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().take_while(|b| **b == 0).count();
    let mut content = bytes[start..].to_vec();
    if content.first().is_none_or(|b| b & 0x80 != 0) {
        content.insert(0, 0);
    }
    element(INTEGER, &content)
}

/// A bit string of whole bytes.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// Reads elements one after the other.
#[derive(Clone)]
pub(super) struct Reader<'d>(&'d [u8]);

/// An element that was read.
pub(super) struct Element<'d> {
    pub(super) tag: u8,
    pub(super) content: &'d [u8],
    /// With tag and length.
    pub(super) whole: &'d [u8],
}

impl<'d> Reader<'d> {
    pub(super) fn new(der: &'d [u8]) -> Self {
        Self(der)
    }

    /// The next element, if there is one and it is whole.
    pub(super) fn next(&mut self) -> Option<Element<'d>> {
        let (tag, first) = (*self.0.first()?, *self.0.get(1)?);
        let (length, head) = if first < 0x80 {
            (usize::from(first), 2)
        } else {
            let count = usize::from(first & 0x7f);
            if count == 0 || count > 4 {
                return None;
            }
            let bytes = self.0.get(2..2 + count)?;
            (bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b)), 2 + count)
        };
        let end = head.checked_add(length)?;
        let whole = self.0.get(..end)?;
        self.0 = &self.0[end..];
        Some(Element { tag, content: &whole[head..], whole })
    }

    /// The next element, which must have that tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<Element<'d>> {
        self.next().filter(|e| e.tag == tag)
    }

    /// What is inside the next element, which must be a sequence.
    pub(super) fn enter(&mut self) -> Option<Self> {
        self.expect(SEQUENCE).map(|e| Self(e.content))
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A block of PEM as Go writes it, lines of 64 characters.
pub(super) fn to_pem(label: &str, der: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in encode64(der).chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// The label and content of the first block of PEM.
pub(super) fn from_pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let mut rest = text;
    loop {
        let start = rest.find("-----BEGIN ")?;
        let at_line_start = start == 0 || rest.as_bytes().get(start - 1) == Some(&b'\n');
        rest = &rest[start + "-----BEGIN ".len()..];
        if !at_line_start {
            continue;
        }
        let Some((label, body)) = rest.split_once("-----") else { continue };
        let Some((body, _)) = body.split_once(&format!("-----END {label}-----")) else { continue };
        if label.contains('\n') {
            continue;
        }
        // Headers, such as those of encrypted keys, end with an empty line.
        let body = match body.split_once("\n\n") {
            Some((headers, after)) if headers.contains(':') => after,
            _ => body,
        };
        let compact: Vec<u8> = body.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        if let Ok(der) = decode64(&compact) {
            return Some((label, der));
        }
    }
}
