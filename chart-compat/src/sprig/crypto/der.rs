//! DER: the ASN.1 types that keys and certificates use.
//!
//! Knows only the encoding, not the meaning of elements.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of an explicit `[n]`, around a whole element.
pub(super) const fn explicit(n: u8) -> u8 {
    0xa0 | n
}

/// The tag of an implicit `[n]`, which replaces a primitive element's own tag.
pub(super) const fn implicit(n: u8) -> u8 {
    0x80 | n
}

/// One element: tag, length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    if let Ok(short @ ..0x80) = u8::try_from(content.len()) {
        out.push(short);
    } else {
        let length = content.len().to_be_bytes();
        let skip = length.iter().take_while(|b| **b == 0).count();
        let length = &length[skip..];
        // A length has at most eight bytes, so the count fits.
        #[allow(clippy::cast_possible_truncation)]
        out.push(0x80 | length.len() as u8);
        out.extend_from_slice(length);
    }
    out.extend_from_slice(content);
    out
}

/// An element that contains other elements.
pub(super) fn constructed(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    element(tag, &parts.concat())
}

/// A SEQUENCE.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    constructed(SEQUENCE, parts)
}

/// A non-negative INTEGER, from big-endian bytes.
pub(super) fn integer(magnitude: &[u8]) -> Vec<u8> {
    let skip = magnitude.iter().take_while(|b| **b == 0).count();
    let digits = &magnitude[skip..];
    if digits.first().is_none_or(|b| *b >= 0x80) {
        // A leading zero keeps the number positive; it is also the encoding of zero.
        return constructed(INTEGER, &[&[0], digits]);
    }
    element(INTEGER, digits)
}

/// A BIT STRING of whole bytes.
pub(super) fn bit_string(content: &[u8]) -> Vec<u8> {
    constructed(BIT_STRING, &[&[0], content])
}

/// Reads consecutive elements. `None` on every error.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// A reader of the content of `bytes`, which must be exactly one element with this tag.
    pub(super) fn whole(tag: u8, bytes: &'a [u8]) -> Option<Self> {
        let mut outer = Self::new(bytes);
        let inner = outer.read(tag)?;
        outer.is_empty().then(|| Self::new(inner))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element's tag, content and whole encoding.
    pub(super) fn any(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let all = self.rest;
        let (tag, rest) = all.split_first()?;
        if tag & 0x1f == 0x1f {
            // Tags above 30 do not occur in keys and certificates.
            return None;
        }
        let (first, rest) = rest.split_first()?;
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.first().is_none_or(|b| *b == 0) || digits.len() > 4 {
                return None;
            }
            let length = digits.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
            if length < 0x80 {
                return None;
            }
            (length, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some((*tag, content, &all[..all.len() - rest.len()]))
    }

    /// The content of the next element, if it has this tag.
    pub(super) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.element(tag).map(|e| e.0)
    }

    /// Content and whole encoding of the next element, if it has this tag.
    pub(super) fn element(&mut self, tag: u8) -> Option<(&'a [u8], &'a [u8])> {
        let before = *self;
        match self.any() {
            Some((found, content, whole)) if found == tag => Some((content, whole)),
            _ => {
                *self = before;
                None
            }
        }
    }

    /// The content of the next element if it has this tag. `Err`: the tag is right, but the element is malformed.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, ()> {
        if self.rest.first() != Some(&tag) {
            return Ok(None);
        }
        self.read(tag).map(Some).ok_or(())
    }

    /// An INTEGER in its shortest form, as bytes. They can begin with the zero byte of the sign.
    pub(super) fn integer(&mut self) -> Option<&'a [u8]> {
        let n = self.read(INTEGER)?;
        let padded =
            matches!(n, [0, low, ..] if *low < 0x80) || matches!(n, [0xff, high, ..] if *high >= 0x80);
        (!n.is_empty() && !padded).then_some(n)
    }

    /// A BIT STRING of whole bytes.
    pub(super) fn bit_string(&mut self) -> Option<&'a [u8]> {
        match self.read(BIT_STRING)? {
            [0, bits @ ..] => Some(bits),
            _ => None,
        }
    }
}
