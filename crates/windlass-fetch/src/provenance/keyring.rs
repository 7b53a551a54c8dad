//! Keyrings: GnuPG's binary and armored exports and its keyboxes, as certificates (`loadKeyRing`).
//!
//! Owns the containers and the grouping of packets. Verifies no certificate: signatures are checked when a key is used.
//! Skips the trust packets in GnuPG's old keyrings, at which rPGP's parser stops.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use pgp::armor::{BlockType, Dearmor};
use pgp::errors::Error;
use pgp::packet::{Packet, PacketParser, PublicKey, SecretKey, Signature};
use pgp::types::{KeyDetails as _, KeyVersion, Tag};

use super::super::atomic_files;
use super::certificate::Certificate;
use super::openpgp_error::OpenPgpError;

/// Size limit of a keyring, in bytes.
const MAX_KEYRING: u64 = 64 << 20;

/// Reads a keyring.
pub(super) fn read(path: &Path) -> Result<Vec<Certificate>, OpenPgpError> {
    let unopened = |reason: String| OpenPgpError::Open { path: path.to_owned(), reason };
    let container = |container| {
        let path = path.to_owned();
        move |source| OpenPgpError::Container { container, path, source: Box::new(source) }
    };
    let data = atomic_files::read(path, MAX_KEYRING).map_err(|e| unopened(e.to_string()))?;
    let data = data.ok_or_else(|| unopened("no such file or directory".to_owned()))?;
    let mut ring = Ring::default();
    if data.len() >= 12 && data[4] == 1 && &data[8..12] == b"KBXf" {
        let keys = keybox(&data).map_err(container("keybox"))?;
        ring.add(&keys)?;
    } else if data.trim_ascii_start().starts_with(b"-----BEGIN PGP") {
        let text = String::from_utf8_lossy(&data);
        armored(&mut ring, &text).map_err(container("armored keyring"))?;
    } else {
        ring.add(&data)?;
    }
    Ok(ring.certificates())
}

/// Reads keys in armor.
pub(super) fn of_texts(texts: &[String]) -> Result<Vec<Certificate>, OpenPgpError> {
    let mut ring = Ring::default();
    for text in texts {
        armored(&mut ring, text)?;
    }
    Ok(ring.certificates())
}

/// Adds the certificates of each armored block of a text.
fn armored(ring: &mut Ring, text: &str) -> Result<(), OpenPgpError> {
    const BEGIN: &str = "-----BEGIN PGP";
    for block in text.split(BEGIN).skip(1) {
        let (kind, data) = dearmor(&format!("{BEGIN}{block}"))?;
        if !matches!(kind, BlockType::PublicKey | BlockType::PrivateKey) {
            return Err(OpenPgpError::NotKeys(kind.to_string()));
        }
        ring.add(&data)?;
    }
    if ring.all.is_empty() { Err(OpenPgpError::NoKeys) } else { Ok(()) }
}

/// The type and data of one armored block.
pub(super) fn dearmor(text: &str) -> Result<(BlockType, Vec<u8>), OpenPgpError> {
    let mut reader = Dearmor::new(text.as_bytes());
    reader.read_header().map_err(|_| OpenPgpError::Armor)?;
    let mut data = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "what it decodes is shorter than the text")]
    reader.read_to_end(&mut data).map_err(|_| OpenPgpError::Armor)?;
    let kind = reader.typ.ok_or(OpenPgpError::Armor)?;
    Ok((kind, data))
}

/// The component that the next signature of a keyring belongs to.
#[derive(Clone, Copy)]
enum Target {
    Primary,
    /// The user id of this index.
    User(usize),
    /// The subkey of this index.
    Subkey(usize),
    /// A component that signatures of provenance files do not use, or that cannot be parsed.
    Ignored,
}

/// Certificates, grouped from packets. Copies of a key, user id or subkey are merged: a revocation of any of them
/// counts for it.
#[derive(Default)]
pub(super) struct Ring {
    /// `None`: an incomplete certificate.
    all: Vec<Option<Certificate>>,
    by_fingerprint: HashMap<Vec<u8>, usize>,
}

impl Ring {
    /// The parsed certificates, in their order.
    pub(super) fn certificates(self) -> Vec<Certificate> {
        self.all.into_iter().flatten().collect()
    }

    /// Adds a stream of packets. The components of an unknown primary key are skipped with it.
    pub(super) fn add(&mut self, data: &[u8]) -> Result<(), OpenPgpError> {
        let mut current: Option<usize> = None;
        let mut target = Target::Ignored;
        let mut packets = PacketParser::new(data);
        while let Some(body) = packets.next_ref() {
            let mut body = body.map_err(OpenPgpError::Packet)?;
            let header = body.packet_header();
            let tag = header.tag();
            let packet = Packet::from_reader(header, &mut body);
            if matches!(tag, Tag::PublicKey | Tag::SecretKey) {
                target = Target::Primary;
                current = packet.ok().and_then(primary).map(|(key, secret)| self.place(key, secret));
                continue;
            }
            let Some(slot) = current.and_then(|n| self.all.get_mut(n)) else { continue };
            let Some(certificate) = slot else { continue };
            match packet {
                Ok(Packet::UserId(id)) => target = Target::User(certificate.user(id)),
                Ok(Packet::PublicSubkey(key)) => target = Target::Subkey(certificate.subkey(key)),
                Ok(Packet::SecretSubkey(key)) => {
                    target = Target::Subkey(certificate.subkey(key.public_key().clone()));
                }
                Ok(Packet::Signature(signature)) => attach(certificate, target, signature),
                Ok(Packet::UserAttribute(_)) => target = Target::Ignored,
                Ok(_) => {}
                Err(_) if matches!(tag, Tag::UserId | Tag::UserAttribute) => target = Target::Ignored,
                Err(_) if matches!(tag, Tag::PublicSubkey | Tag::SecretSubkey) => target = Target::Ignored,
                Err(Error::Unsupported { .. }) => {}
                // The packet may be a revocation.
                Err(_) => *slot = None,
            }
        }
        Ok(())
    }

    /// The index of the certificate of a primary key.
    fn place(&mut self, key: PublicKey, secret: Option<SecretKey>) -> usize {
        let next = self.all.len();
        let at = *self.by_fingerprint.entry(key.fingerprint().as_bytes().to_vec()).or_insert(next);
        match self.all.get_mut(at) {
            Some(Some(known)) => known.secret = known.secret.take().or(secret),
            Some(None) => {}
            None => {
                let (signatures, users, subkeys) = (Vec::new(), Vec::new(), Vec::new());
                self.all.push(Some(Certificate { key, secret, signatures, users, subkeys }));
            }
        }
        at
    }
}

fn primary(packet: Packet) -> Option<(PublicKey, Option<SecretKey>)> {
    let (key, secret) = match packet {
        Packet::PublicKey(key) => (key, None),
        Packet::SecretKey(key) => (key.public_key().clone(), Some(key)),
        _ => return None,
    };
    matches!(key.version(), KeyVersion::V4 | KeyVersion::V6).then_some((key, secret))
}

fn attach(certificate: &mut Certificate, target: Target, signature: Signature) {
    let place = match target {
        Target::Primary => Some(&mut certificate.signatures),
        Target::User(n) => certificate.users.get_mut(n).map(|u| &mut u.signatures),
        Target::Subkey(n) => certificate.subkeys.get_mut(n).map(|s| &mut s.signatures),
        Target::Ignored => None,
    };
    if let Some(place) = place {
        place.push(signature);
    }
}

/// The keys in a keybox: blobs with a length, a type, flags, and the position of the key.
fn keybox(data: &[u8]) -> Result<Vec<u8>, OpenPgpError> {
    let wrong = OpenPgpError::Keybox;
    let mut out = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let length = number(rest, 0, 4).filter(|n| *n >= 5).ok_or(wrong("a blob has no length"))?;
        let (blob, after) = rest.split_at_checked(length).ok_or(wrong("a blob is cut off"))?;
        rest = after;
        if blob[4] != 2 {
            continue;
        }
        let head = (|| Some((number(blob, 6, 2)?, number(blob, 8, 4)?, number(blob, 12, 4)?)))();
        let (flags, start, length) = head.ok_or(wrong("an OpenPGP blob is too short"))?;
        let end = start.checked_add(length).ok_or(wrong("an OpenPGP blob has a wrong place"))?;
        let key = blob.get(start..end).ok_or(wrong("an OpenPGP blob has a wrong place"))?;
        // Ephemeral keys are not part of the ring yet.
        if flags & 2 == 0 {
            out.extend_from_slice(key);
        }
    }
    if out.is_empty() { Err(wrong("keybox contains no OpenPGP keys")) } else { Ok(out) }
}

/// A big-endian number of `length` bytes.
fn number(data: &[u8], at: usize, length: usize) -> Option<usize> {
    Some(data.get(at..at + length)?.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
}
