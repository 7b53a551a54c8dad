//! What a program prints, within a limit.
//!
//! Owns the threads that write its input and read its output side by side. Does not start programs.

use std::io::{Read, Write as _};
use std::process::{Child, ExitStatus};

/// How a program ended.
#[derive(Debug)]
pub struct Printed {
    /// Its status.
    pub status: ExitStatus,
    /// Its standard output, at most one byte more than the limit.
    pub stdout: Vec<u8>,
    /// Its standard error, likewise.
    pub stderr: Vec<u8>,
}

/// Waits for a program whose streams are piped. `limit`: the most bytes to keep of each stream; what prints more is cut off.
///
/// # Errors
/// The system does not tell how it ended.
pub fn wait(mut child: Child, input: &[u8], limit: u64) -> std::io::Result<Printed> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program need not read its input.
            drop(stdin.map(|mut stdin| stdin.write_all(input)));
        });
        let stderr = scope.spawn(move || first(stderr, limit));
        (first(stdout, limit), stderr.join().unwrap_or_default())
    });
    Ok(Printed { status: child.wait()?, stdout, stderr })
}

fn first(stream: Option<impl Read>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // On a failure, return what was read before.
    drop(stream.map(|stream| stream.take(limit + 1).read_to_end(&mut bytes)));
    bytes
}
