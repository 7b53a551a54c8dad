//! Inflating gzip members as they are read (RFC 1952).
//!
//! Owns a reader of an archive; knows nothing of what is inside. flate2's own reader sums without the
//! processor's instruction and clears what it is about to fill.

use std::io::{BufRead, Error, ErrorKind};

use flate2::{Decompress, FlushDecompress, Status};

/// How much is inflated at once: enough that deflate's window is seldom copied, and no more than a fast cache holds.
const BLOCK: usize = 128 * 1024;

/// A reader of what gzip members inflate to, one after the other.
pub(super) struct Gunzip<'b> {
    input: &'b mut dyn BufRead,
    member: Option<Member>,
    block: Vec<u8>,
    /// How much of the block has been handed out.
    given: usize,
    /// How much of all has been handed out, and how much may be.
    at: u64,
    most: u64,
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
    /// A reader that ends after `most` bytes.
    pub(super) fn new(input: &'b mut dyn BufRead, most: u64) -> Self {
        Self { input, member: None, block: Vec::new(), given: 0, at: 0, most }
    }

    /// How much has been handed out.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// What is there to be handed out next, up to so much of it; nothing at the end.
    pub(super) fn next(&mut self, most: u64) -> Result<&[u8], Error> {
        let most = most.min(self.most - self.at);
        if self.given == self.block.len() && most > 0 {
            self.fill()?;
        }
        let waiting = &self.block[self.given..];
        let n = usize::try_from(most).unwrap_or(usize::MAX).min(waiting.len());
        self.given += n;
        self.at += n as u64;
        Ok(&waiting[..n])
    }

    /// Inflates the next block; it stays empty at the end.
    fn fill(&mut self) -> Result<(), Error> {
        self.block.clear();
        self.given = 0;
        self.block.reserve(BLOCK);
        while self.block.is_empty() {
            let input = waiting(self.input)?;
            let member = match &mut self.member {
                Some(member) => member,
                None if input.is_empty() => return Ok(()),
                None => {
                    header(self.input)?;
                    let sum = crc32fast::Hasher::new();
                    self.member = Some(Member { inflate: Decompress::new(false), sum, size: 0 });
                    continue;
                }
            };
            let before = member.inflate.total_in();
            let status = member.inflate.decompress_vec(input, &mut self.block, FlushDecompress::None);
            let taken = usize::try_from(member.inflate.total_in() - before).unwrap_or(usize::MAX);
            self.input.consume(taken);
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
        let mut trailer = [0; 8];
        self.input.read_exact(&mut trailer).map_err(|e| ended(e, cut()))?;
        let told =
            [trailer[..4] == member.sum.finalize().to_le_bytes(), trailer[4..] == member.size.to_le_bytes()];
        if told != [true, true] {
            return Err(damage("gzip: invalid checksum"));
        }
        Ok(())
    }
}

/// `instead` of an error that says that there is no more.
fn ended(error: Error, instead: Error) -> Error {
    if error.kind() == ErrorKind::UnexpectedEof { instead } else { error }
}

/// What can be read without waiting for more; nothing at the end.
fn waiting(input: &mut dyn BufRead) -> Result<&[u8], Error> {
    while let Err(error) = input.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    input.fill_buf()
}

/// Skips a member's header.
fn header(input: &mut dyn BufRead) -> Result<(), Error> {
    let wrong = || damage("gzip: invalid header");
    let mut fixed = [0; 10];
    input.read_exact(&mut fixed).map_err(|e| ended(e, wrong()))?;
    if !fixed.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(wrong());
    }
    let flags = fixed[3];
    if flags & 4 != 0 {
        let mut size = [0; 2];
        input.read_exact(&mut size).map_err(|e| ended(e, wrong()))?;
        let mut extra = vec![0; usize::from(u16::from_le_bytes(size))];
        input.read_exact(&mut extra).map_err(|e| ended(e, wrong()))?;
    }
    // Name and comment end with a zero.
    for flag in [8, 16] {
        if flags & flag != 0 {
            input.skip_until(0)?;
        }
    }
    if flags & 2 != 0 {
        input.read_exact(&mut [0; 2]).map_err(|e| ended(e, wrong()))?;
    }
    Ok(())
}
