//! OpenPGP packets and armor, as far as keys and signatures need them (RFC 4880, sections 4 and 6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How many packets a keyring may have.
const MAX_PACKETS: usize = 200_000;

/// One packet.
pub(super) struct Packet<'d> {
    pub(super) tag: u8,
    pub(super) body: &'d [u8],
}

/// Takes bytes one after the other.
pub(super) struct Reader<'d>(pub(super) &'d [u8]);

impl<'d> Reader<'d> {
    pub(super) fn take(&mut self, n: usize) -> Option<&'d [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub(super) fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    }

    /// A whole number of any size, without zeros before it.
    pub(super) fn mpi(&mut self) -> Option<&'d [u8]> {
        let bits = self.number(2)?;
        self.take(bits.div_ceil(8))
    }
}

/// The packets of a stream.
pub(super) fn packets(data: &[u8]) -> Result<Vec<Packet<'_>>, String> {
    let cut = || "openpgp: the data ends inside a packet".to_owned();
    let mut reader = Reader(data);
    let mut out = Vec::new();
    while !reader.0.is_empty() {
        let head = reader.byte().ok_or_else(cut)?;
        if head & 0x80 == 0 {
            return Err("openpgp: invalid data: tag byte does not have MSB set".to_owned());
        }
        let (tag, length) = if head & 0x40 != 0 {
            let first = reader.byte().ok_or_else(cut)?;
            let length = match first {
                0..192 => usize::from(first),
                192..224 => {
                    ((usize::from(first) - 192) << 8) + usize::from(reader.byte().ok_or_else(cut)?) + 192
                }
                255 => reader.number(4).ok_or_else(cut)?,
                _ => return Err("openpgp: unsupported feature: partial lengths".to_owned()),
            };
            (head & 0x3f, length)
        } else {
            let length = match head & 3 {
                3 => reader.0.len(),
                n => reader.number(1 << n).ok_or_else(cut)?,
            };
            (head >> 2 & 0x0f, length)
        };
        out.push(Packet { tag, body: reader.take(length).ok_or_else(cut)? });
        if out.len() > MAX_PACKETS {
            return Err(format!("openpgp: more than {MAX_PACKETS} packets"));
        }
    }
    Ok(out)
}

/// A packet of the new form.
pub(super) fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc0 | tag, 255];
    out.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// A number as packets hold it.
pub(super) fn mpi(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let bytes = &bytes[zeros..];
    let bits = bytes.first().map_or(0, |b| bytes.len() * 8 - b.leading_zeros() as usize);
    let mut out = u16::try_from(bits).unwrap_or(u16::MAX).to_be_bytes().to_vec();
    out.extend_from_slice(bytes);
    out
}

/// Whether a text begins as armor does.
pub(super) fn is_armored(data: &[u8]) -> bool {
    data.trim_ascii_start().starts_with(b"-----BEGIN PGP")
}

/// The data of each armored block of a text, with its type.
pub(super) fn dearmor(text: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut out = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----"))
        else {
            continue;
        };
        // Headers end with an empty line.
        let mut body = String::new();
        let mut headers = true;
        let mut closed = false;
        for line in lines.by_ref() {
            if line.starts_with("-----END ") {
                closed = true;
                break;
            }
            match line {
                "" => headers = false,
                line if headers && line.contains(": ") => {}
                // The checksum says nothing that the signature does not.
                line if line.starts_with('=') => {}
                line => {
                    headers = false;
                    body.push_str(line.trim());
                }
            }
        }
        let data = STANDARD.decode(&body).ok().filter(|_| closed);
        out.push((
            kind.to_owned(),
            data.ok_or_else(|| "openpgp: invalid argument: armor invalid".to_owned())?,
        ));
    }
    Ok(out)
}

/// Armor around data.
pub(super) fn armor(kind: &str, data: &[u8]) -> String {
    let body = STANDARD.encode(data);
    let mut out = format!("-----BEGIN {kind}-----\n\n");
    for line in body.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    let sum = crc24(data).to_be_bytes();
    out.push_str(&format!("={}\n-----END {kind}-----", STANDARD.encode(&sum[1..])));
    out
}

fn crc24(data: &[u8]) -> u32 {
    data.iter().fold(0x00b7_04ce, |mut crc, byte| {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
        crc & 0x00ff_ffff
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_armored_comes_back() {
        let data: Vec<u8> = (0..200).collect();
        let text = armor("PGP SIGNATURE", &data);
        assert_eq!(dearmor(&text).unwrap(), [("PGP SIGNATURE".to_owned(), data)]);
        assert_eq!(crc24(b""), 0x00b7_04ce);
        assert!(dearmor("-----BEGIN PGP SIGNATURE-----\n\nAAAA\n").is_err());
    }

    #[test]
    fn packets_of_both_forms_are_read_and_cut_ones_refused() {
        let mut data = packet(13, b"me");
        data.extend([0x80 | 13 << 2, 3, b'y', b'o', b'u']);
        let read = packets(&data).unwrap();
        let shown: Vec<(u8, &[u8])> = read.iter().map(|p| (p.tag, p.body)).collect();
        assert_eq!(shown, [(13, &b"me"[..]), (13, &b"you"[..])]);
        for n in 1..data.len() {
            let whole = n == 8;
            assert_eq!(packets(&data[..n]).is_ok(), whole, "{n}");
        }
        assert_eq!(mpi(&[0, 0, 1, 2]), [0, 9, 1, 2]);
    }
}
