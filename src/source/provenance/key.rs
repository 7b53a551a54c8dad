//! Keys and keyrings: GnuPG's binary and armored exports, its keyboxes.
//!
//! A keyring is the user's own file: what it says of expiry and revocation is taken as it is said.

use std::path::Path;

use sha1::{Digest as _, Sha1};

use super::super::files;
use super::packet::{Packet, Reader, dearmor, is_armored, packets};

/// How large a keyring may be.
const MAX_KEYRING: u64 = 64 << 20;

/// The numbers of a public key.
#[derive(Clone, Debug)]
pub(super) enum Public {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    Ed25519(Vec<u8>),
    /// The curve's identifier and the point.
    Ecdsa(Vec<u8>, Vec<u8>),
    /// Nothing that signs, or nothing that we know.
    Other,
}

/// A key or subkey.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) fingerprint: [u8; 20],
    pub(super) public: Public,
    pub(super) algorithm: u8,
    pub(super) created: u64,
    /// Seconds after its creation at which it ends.
    pub(super) lifetime: Option<u64>,
    pub(super) revoked: bool,
    /// What follows the public part in a packet of a secret key.
    pub(super) secret: Option<Vec<u8>>,
}

impl Key {
    pub(super) fn id(&self) -> [u8; 8] {
        let mut id = [0; 8];
        id.copy_from_slice(&self.fingerprint[12..]);
        id
    }

    fn read(body: &[u8], with_secret: bool) -> Option<Self> {
        let mut r = Reader(body);
        if r.byte()? != 4 {
            return None;
        }
        let created = r.number(4)? as u64;
        let algorithm = r.byte()?;
        let public = match algorithm {
            1 | 3 => Public::Rsa { n: r.mpi()?.to_vec(), e: r.mpi()?.to_vec() },
            22 => {
                let length = usize::from(r.byte()?);
                let curve = r.take(length)?;
                let point = r.mpi()?;
                match (curve, point) {
                    ([0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01], [0x40, key @ ..])
                        if key.len() == 32 =>
                    {
                        Public::Ed25519(key.to_vec())
                    }
                    _ => Public::Other,
                }
            }
            19 => {
                let length = usize::from(r.byte()?);
                Public::Ecdsa(r.take(length)?.to_vec(), r.mpi()?.to_vec())
            }
            // The numbers of keys that cannot sign matter only for where a secret begins, which is not asked of them.
            _ => {
                r.0 = &[];
                Public::Other
            }
        };
        let length = body.len() - r.0.len();
        let mut digest = Sha1::new();
        digest.update([0x99]);
        digest.update(u16::try_from(length).ok()?.to_be_bytes());
        digest.update(&body[..length]);
        Some(Self {
            fingerprint: digest.finalize().into(),
            public,
            algorithm,
            created,
            lifetime: None,
            revoked: false,
            secret: with_secret.then(|| r.0.to_vec()),
        })
    }

    /// Takes over what a signature says of this key.
    fn learn(&mut self, signature: &[u8], revocation: u8) {
        let mut r = Reader(signature);
        let Some(head) = r.take(4) else { return };
        if head[0] != 4 {
            return;
        }
        if head[1] == revocation {
            self.revoked = true;
        }
        let Some(hashed) = r.number(2).and_then(|n| r.take(n)) else { return };
        for (kind, data) in subpackets(hashed) {
            if kind == 9 && data.len() == 4 && matches!(head[1], 0x10..=0x13 | 0x18 | 0x1f) {
                let seconds = data.iter().fold(0, |n, b| n << 8 | u64::from(*b));
                self.lifetime = Some(seconds).filter(|s| *s > 0);
            }
        }
    }
}

/// The subpackets of a signature: kind and data.
pub(super) fn subpackets(data: &[u8]) -> Vec<(u8, &[u8])> {
    let mut r = Reader(data);
    let mut out = Vec::new();
    while let Some(first) = r.byte() {
        let length = match first {
            0..192 => Some(usize::from(first)),
            192..255 => r.byte().map(|second| ((usize::from(first) - 192) << 8) + usize::from(second) + 192),
            255 => r.number(4),
        };
        match length.and_then(|n| r.take(n)) {
            Some([kind, data @ ..]) => out.push((kind & 0x7f, data)),
            _ => break,
        }
    }
    out
}

/// A person: a primary key, names, and subkeys.
#[derive(Clone, Debug)]
pub struct Entity {
    pub(super) primary: Key,
    pub(super) subkeys: Vec<Key>,
    /// `NAME (COMMENT) <ADDRESS>`, in the order of the keyring.
    pub names: Vec<String>,
}

impl Entity {
    /// The fingerprint of the primary key in upper-case hex.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.primary.fingerprint.iter().map(|b| format!("{b:02X}")).collect()
    }
}

fn entities(data: &[u8]) -> Result<Vec<Entity>, String> {
    let mut out: Vec<Entity> = Vec::new();
    // Whether the last key was one that we can read; what follows another is passed over with it.
    let mut known = false;
    for Packet { tag, body } in packets(data)? {
        match tag {
            6 | 5 => {
                let key = Key::read(body, tag == 5);
                known = key.is_some();
                out.extend(key.map(|primary| Entity { primary, subkeys: Vec::new(), names: Vec::new() }));
            }
            _ if !known => {}
            14 | 7 => {
                if let (Some(entity), Some(key)) = (out.last_mut(), Key::read(body, tag == 7)) {
                    entity.subkeys.push(key);
                }
            }
            13 => {
                if let Some(entity) = out.last_mut() {
                    entity.names.push(String::from_utf8_lossy(body).into_owned());
                }
            }
            2 => {
                if let Some(entity) = out.last_mut() {
                    match entity.subkeys.last_mut() {
                        Some(subkey) => subkey.learn(body, 0x28),
                        None => entity.primary.learn(body, 0x20),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(out)
}

/// Reads a keyring (`loadKeyRing`).
pub(super) fn keyring(path: &Path) -> Result<Vec<Entity>, String> {
    let shown = path.display();
    let data = files::read(path, MAX_KEYRING).map_err(|e| format!("open {shown}: {e}"))?;
    let data = data.ok_or_else(|| format!("open {shown}: no such file or directory"))?;
    if data.len() >= 12 && data[4] == 1 && &data[8..12] == b"KBXf" {
        let keys = keybox(&data).map_err(|e| format!("reading keybox {shown}: {e}"))?;
        return entities(&keys);
    }
    if !is_armored(&data) {
        return entities(&data);
    }
    let failed = |e: String| format!("reading armored keyring {shown}: {e}");
    let mut out = Vec::new();
    for (kind, data) in dearmor(&String::from_utf8_lossy(&data)).map_err(failed)? {
        if !matches!(kind.as_str(), "PGP PUBLIC KEY BLOCK" | "PGP PRIVATE KEY BLOCK") {
            return Err(failed(format!("expected a public or private key block, got {kind:?}")));
        }
        out.extend(entities(&data).map_err(failed)?);
    }
    if out.is_empty() { Err(failed("no keys found".to_owned())) } else { Ok(out) }
}

/// The keys in a keybox: blobs with a length, a type, flags, and where in them the key is.
fn keybox(data: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let length = Reader(rest).number(4).filter(|n| *n >= 5).ok_or("a blob has no length")?;
        let (blob, after) = rest.split_at_checked(length).ok_or("a blob is cut off")?;
        rest = after;
        if blob[4] != 2 {
            continue;
        }
        let mut r = Reader(&blob[5..]);
        let head = (|| Some((r.take(1)?, r.number(2)?, r.number(4)?, r.number(4)?)))();
        let (_, flags, start, length) = head.ok_or("an OpenPGP blob is too short")?;
        let end = start.checked_add(length).ok_or("an OpenPGP blob has a wrong place")?;
        let key = blob.get(start..end).ok_or("an OpenPGP blob has a wrong place")?;
        // GnuPG passes over what is not yet part of the ring.
        if flags & 2 == 0 {
            out.extend_from_slice(key);
        }
    }
    if out.is_empty() { Err("keybox contains no OpenPGP keys".to_owned()) } else { Ok(out) }
}
