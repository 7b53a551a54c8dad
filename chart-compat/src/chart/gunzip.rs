//! Inflating gzip members as they are read (RFC 1952).
//!
//! Owns a reader over an archive in memory; knows nothing of what is inside. flate2's own reader sums without the
//! processor's instruction and clears what it is about to fill.

use std::io::{Error, ErrorKind, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// How much is inflated at once: enough that deflate's window is seldom copied, and no more than a fast cache holds.
const BLOCK: usize = 128 * 1024;

/// A reader of what gzip members inflate to, one after the other.
pub(super) struct Gunzip<'b> {
    /// What is not inflated yet.
    rest: &'b [u8],
    member: Option<Member>,
    block: Vec<u8>,
    /// How much of the block has been handed out.
    given: usize,
}

/// The member that is being inflated.
struct Member {
    inflate: Decompress,
    sum: crc32fast::Hasher,
    /// Bytes so far, modulo 2^32, as the trailer tells them.
    size: u32,
}

/// Damage, in Go's words.
fn damage(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

fn cut() -> Error {
    damage("unexpected EOF")
}

impl<'b> Gunzip<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, member: None, block: Vec::new(), given: 0 }
    }

    /// Inflates the next block; it stays empty at the end.
    fn fill(&mut self) -> Result<(), Error> {
        self.block.clear();
        self.given = 0;
        self.block.reserve(BLOCK);
        while self.block.is_empty() {
            let member = match &mut self.member {
                Some(member) => member,
                None if self.rest.is_empty() => return Ok(()),
                None => {
                    self.rest = header(self.rest)?;
                    let sum = crc32fast::Hasher::new();
                    self.member.insert(Member { inflate: Decompress::new(false), sum, size: 0 })
                }
            };
            let before = member.inflate.total_in();
            let status = member.inflate.decompress_vec(self.rest, &mut self.block, FlushDecompress::None);
            let taken = usize::try_from(member.inflate.total_in() - before).unwrap_or(usize::MAX);
            self.rest = self.rest.get(taken..).unwrap_or_default();
            member.sum.update(&self.block);
            // A block is far smaller than 4 GiB.
            member.size = member.size.wrapping_add(u32::try_from(self.block.len()).unwrap_or(u32::MAX));
            match status {
                Ok(Status::StreamEnd) => self.end()?,
                // There is room, and it goes no further.
                Ok(_) if taken == 0 && self.block.is_empty() => return Err(cut()),
                Ok(_) => {}
                Err(_) => return Err(damage("flate: corrupt input")),
            }
        }
        Ok(())
    }

    /// Checks a member's trailer.
    fn end(&mut self) -> Result<(), Error> {
        let Some(member) = self.member.take() else { return Ok(()) };
        let (trailer, after) = self.rest.split_first_chunk::<8>().ok_or_else(cut)?;
        let told =
            [trailer[..4] == member.sum.finalize().to_le_bytes(), trailer[4..] == member.size.to_le_bytes()];
        if told != [true, true] {
            return Err(damage("gzip: invalid checksum"));
        }
        self.rest = after;
        Ok(())
    }
}

impl Read for Gunzip<'_> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        if self.given == self.block.len() {
            self.fill()?;
        }
        let waiting = &self.block[self.given..];
        let n = waiting.len().min(to.len());
        to[..n].copy_from_slice(&waiting[..n]);
        self.given += n;
        Ok(n)
    }
}

/// Skips a member's header.
fn header(bytes: &[u8]) -> Result<&[u8], Error> {
    let wrong = || damage("gzip: invalid header");
    let (fixed, mut rest) = bytes.split_first_chunk::<10>().ok_or_else(wrong)?;
    if !fixed.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(wrong());
    }
    let flags = fixed[3];
    if flags & 4 != 0 {
        let (size, after) = rest.split_first_chunk::<2>().ok_or_else(wrong)?;
        rest = after.get(usize::from(u16::from_le_bytes(*size))..).ok_or_else(wrong)?;
    }
    // Name and comment end with a zero.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let end = memchr::memchr(0, rest).ok_or_else(wrong)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & 2 != 0 {
        rest = rest.get(2..).ok_or_else(wrong)?;
    }
    Ok(rest)
}
