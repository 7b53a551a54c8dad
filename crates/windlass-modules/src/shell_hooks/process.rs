//! Runs programs of users: hooks, `enabled` scripts.
//!
//! Owns the process: its end in time, what it prints, what it used. Knows no hook: environment and directory are
//! the caller's, and lines of output go to whom the caller says.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use wait4::{ResUse, Wait4 as _};

use windlass_base::bounded_read;
use windlass_base::child_process::{self, Group, Started};

/// A longer line of output is cut, as addon-operator cuts it.
const MAX_LINE: usize = 10_000;
/// Output beyond this is counted and dropped.
const MAX_OUTPUT: usize = 4 * 1024 * 1024;
/// What a line counts besides its text: a log of short ones is mostly what stands around them.
const PER_LINE: usize = 200;
/// How much of stderr is kept for the error of a failed program.
const TAIL: usize = 2_000;
/// Most that a program may print where its output is the answer.
const MAX_ANSWER: usize = 1024 * 1024;
/// Most that is read of a file that a program wrote: once it is parsed it may take no more either.
const MAX_FILE: u64 = 32 * 1024 * 1024;
/// Most that is read of a script to see what it is run by: as much as the kernel reads.
const MAX_FIRST_LINE: u64 = 256;
/// How long the output of a program that has ended is waited for: something that it left behind may hold it open.
const AFTERMATH: Duration = Duration::from_millis(500);
/// A script that someone writes just now cannot be started; it is tried again this often.
const BUSY_TRIES: u32 = 10;

/// A program and its surroundings.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
    /// Variables besides those of our own process.
    pub environment: Vec<(String, OsString)>,
    /// Where it starts; `None`: where we are.
    pub directory: Option<PathBuf>,
    /// After this time its whole process group is killed; `None`: it may run forever.
    pub timeout: Option<Duration>,
}

/// Where a line of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Its name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What a program used of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub took: Duration,
    pub user: Duration,
    pub system: Duration,
    /// As Linux counts it: with what the operator had itself when it started the program.
    pub max_rss_bytes: u64,
}

/// A program that has ended well.
#[derive(Clone, Debug)]
pub struct ProcessResult {
    pub usage: Usage,
    /// Its stdout, if requested.
    pub stdout: Vec<u8>,
}

/// A program that did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot start {}: {reason}{}", path.display(), interpreter(path, reason))]
    Start { path: PathBuf, reason: io::Error },
    #[error("{end}{}", after(stderr))]
    Failed {
        end: End,
        /// The end of it.
        stderr: String,
        /// Its stdout, if requested.
        stdout: Vec<u8>,
        usage: Usage,
    },
    #[error("{}{}", timed_out(*timeout), after(stderr))]
    Timeout { timeout: Duration, stderr: String, usage: Option<Usage> },
    #[error("it printed more than {MAX_ANSWER} bytes")]
    Flood,
    #[error("{what}: {reason}")]
    Io { what: String, reason: io::Error },
}

fn timed_out(timeout: Duration) -> String {
    format!("killed after {}s, its timeout", timeout.as_secs_f64())
}

/// Whose absence it is where a program that is there is not found: that of what its first line names.
fn interpreter(path: &Path, reason: &io::Error) -> String {
    let head = || {
        let head = File::open(path).and_then(|file| bounded_read::first_bytes(file, MAX_FIRST_LINE)).ok()?;
        let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
        Some(String::from_utf8_lossy(line).into_owned())
    };
    match (reason.kind() == io::ErrorKind::NotFound).then(head).flatten() {
        Some(line) if line.ends_with('\r') => {
            "; its lines end as on Windows, and its first one names no program: save it with plain line ends"
                .to_owned()
        }
        Some(line) => format!(
            "; its first line names {:?}, which is not there: install that, or name another",
            line.trim()
        ),
        None => String::new(),
    }
}

fn after(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

impl ProcessError {
    /// What the program used, where it was started and its end is known.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Failed { usage, .. } => Some(*usage),
            Self::Timeout { usage, .. } => *usage,
            _ => None,
        }
    }

    /// The end of what the program said on stderr.
    #[must_use]
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } | Self::Timeout { stderr, .. } => stderr,
            _ => "",
        }
    }

    /// The same failure with another text in the place of stderr.
    #[must_use]
    pub fn with_stderr(self, text: String) -> Self {
        match self {
            Self::Failed { end, stdout, usage, .. } => Self::Failed { end, stderr: text, stdout, usage },
            other => other,
        }
    }

    /// The error without what the program said on stderr.
    #[must_use]
    pub fn in_short(&self) -> String {
        match self {
            Self::Failed { end, .. } => end.to_string(),
            Self::Timeout { timeout, .. } => timed_out(*timeout),
            other => other.to_string(),
        }
    }
}

/// How a program came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Status(i32),
    /// By a signal of this number.
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        // What was waited for has one of the two.
        status.signal().map_or_else(|| Self::Status(status.code().unwrap_or_default()), Self::Signal)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => write!(f, "ended by signal {number}"),
        }
    }
}

/// Whether stdout is an answer or lines for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    Lines,
    Answer,
}

/// Runs a program to its end; `line` gets what it prints, as it comes.
///
/// # Errors
/// It cannot be started, ends with another status than 0, or runs out of its time.
pub async fn run(
    program: &Program,
    stdout: Stdout,
    mut line: impl FnMut(Stream, &str),
) -> Result<ProcessResult, ProcessError> {
    let started = Instant::now();
    // Dropped with this run, it kills the group: a cancelled run must not continue.
    let Started { mut child, guard } = start(program).await?;
    let io = |what: &str| {
        let what = what.to_owned();
        move |reason| ProcessError::Io { what, reason }
    };
    let pipe = |fd: Option<OwnedFd>| fd.map(Receiver::from_owned_fd).transpose().map_err(io("its output"));
    let out = pipe(child.stdout.take().map(OwnedFd::from))?;
    let err = pipe(child.stderr.take().map(OwnedFd::from))?;
    let mut wait = tokio::task::spawn_blocking(move || child.wait4());
    let mut lines = Lines::new(stdout);
    let outcome = {
        let reading = read(out, err, &mut lines, &mut line);
        let waiting = async {
            let waited = (&mut wait).await.unwrap_or_else(|e| Err(io::Error::other(e.to_string())));
            waited.map_err(io("its end"))
        };
        let timeout = program.timeout.unwrap_or(Duration::MAX);
        tokio::pin!(reading, waiting);
        let mut read_all = false;
        let ended = tokio::time::timeout(timeout, async {
            loop {
                tokio::select! {
                    ended = &mut waiting => break ended,
                    () = &mut reading, if !read_all => read_all = true,
                }
            }
        })
        .await;
        if ended.is_ok() && !read_all {
            drop(tokio::time::timeout(AFTERMATH, reading).await);
        }
        ended
    };
    // Whatever it left behind in its group ends here, and is reaped by init.
    drop(guard);
    lines.flush(&mut line);
    let stderr = lines.tail();
    let used = |ended: &ResUse| Usage {
        took: started.elapsed(),
        user: ended.rusage.utime,
        system: ended.rusage.stime,
        max_rss_bytes: ended.rusage.maxrss,
    };
    let ended = match outcome {
        Ok(ended) => ended?,
        Err(_) => {
            // It is killed by now; the usage of one that the kernel holds is unknown.
            let ended = tokio::time::timeout(AFTERMATH, &mut wait).await.ok();
            let usage = ended.and_then(Result::ok).and_then(Result::ok).map(|ended| used(&ended));
            let timeout = program.timeout.unwrap_or_default();
            return Err(ProcessError::Timeout { timeout, stderr, usage });
        }
    };
    let usage = used(&ended);
    if !ended.status.success() {
        let stdout = if lines.answer.len() > MAX_ANSWER { Vec::new() } else { lines.answer };
        return Err(ProcessError::Failed { end: ended.status.into(), stderr, stdout, usage });
    }
    if lines.answer.len() > MAX_ANSWER {
        return Err(ProcessError::Flood);
    }
    Ok(ProcessResult { usage, stdout: lines.answer })
}

async fn start(program: &Program) -> Result<Started, ProcessError> {
    let mut tries = 0;
    loop {
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).envs(program.environment.iter().map(|(k, v)| (k, v)));
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match child_process::start(&mut command, Group::Own, None) {
            Ok(started) => return Ok(started),
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(reason) => return Err(ProcessError::Start { path: program.path.clone(), reason }),
        }
    }
}

/// What was printed so far, cut into lines and kept within bounds.
struct Lines {
    stdout: Stdout,
    answer: Vec<u8>,
    open: [Vec<u8>; 2],
    tail: String,
    seen: usize,
    dropped: usize,
}

impl Lines {
    fn new(stdout: Stdout) -> Self {
        Self {
            stdout,
            answer: Vec::new(),
            open: [Vec::new(), Vec::new()],
            tail: String::new(),
            seen: 0,
            dropped: 0,
        }
    }

    fn take(&mut self, stream: Stream, bytes: &[u8], line: &mut impl FnMut(Stream, &str)) {
        if stream == Stream::Stdout && self.stdout == Stdout::Answer {
            let room = (MAX_ANSWER + 1).saturating_sub(self.answer.len());
            self.answer.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let open = &mut self.open[stream as usize];
            // One more than a line may have tells that it is cut.
            let room = (MAX_LINE + 1).saturating_sub(open.len());
            open.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line(stream, line);
            }
        }
    }

    fn end_line(&mut self, stream: Stream, line: &mut impl FnMut(Stream, &str)) {
        let bytes = std::mem::take(&mut self.open[stream as usize]);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() {
            return;
        }
        if stream == Stream::Stderr {
            self.keep(text);
        }
        self.seen += text.len() + PER_LINE;
        if self.seen > MAX_OUTPUT {
            self.dropped += text.len();
            return;
        }
        match text.char_indices().nth(MAX_LINE) {
            Some((end, _)) => line(stream, &format!("{}... (cut)", &text[..end])),
            None if bytes.len() > MAX_LINE => line(stream, &format!("{text}... (cut)")),
            None => line(stream, text),
        }
    }

    fn keep(&mut self, text: &str) {
        if !self.tail.is_empty() {
            self.tail.push('\n');
        }
        self.tail.push_str(text);
        if self.tail.len() > TAIL {
            let mut from = self.tail.len() - TAIL;
            while !self.tail.is_char_boundary(from) {
                from += 1;
            }
            self.tail.drain(..from);
        }
    }

    fn flush(&mut self, line: &mut impl FnMut(Stream, &str)) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !self.open[stream as usize].is_empty() {
                self.end_line(stream, line);
            }
        }
        if self.dropped > 0 {
            line(Stream::Stderr, &format!("{} further bytes of output are left out", self.dropped));
        }
    }

    /// The last that was said on stderr.
    fn tail(&self) -> String {
        self.tail.trim().to_owned()
    }
}

/// Reads both pipes until both are closed.
async fn read(
    mut out: Option<Receiver>,
    mut err: Option<Receiver>,
    lines: &mut Lines,
    line: &mut impl FnMut(Stream, &str),
) {
    let (mut from_out, mut from_err) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    while out.is_some() || err.is_some() {
        tokio::select! {
            count = next(&mut out, &mut from_out) => lines.take(Stream::Stdout, &from_out[..count], line),
            count = next(&mut err, &mut from_err) => lines.take(Stream::Stderr, &from_err[..count], line),
        }
    }
}

/// The next bytes of a pipe; closes it at its end, and never comes back on one that is closed.
async fn next(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else { return std::future::pending().await };
    let count = open.read(buffer).await.unwrap_or_default();
    if count == 0 {
        *pipe = None;
    }
    count
}

/// A directory for one run, readable by its owner only; removed when dropped, unless it is kept for debugging.
#[derive(Debug)]
pub struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    /// Creates one below `base`, which is created if it does not exist.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(base: &Path, keep: bool) -> Result<Self, ProcessError> {
        let failed = |reason| ProcessError::Io { what: format!("a directory in {}", base.display()), reason };
        std::fs::create_dir_all(base).map_err(failed)?;
        let private = std::fs::Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        let mut directory = builder.prefix("run-").permissions(private).tempdir_in(base).map_err(failed)?;
        directory.disable_cleanup(keep);
        Ok(Self { directory })
    }

    /// Writes a file of this name; returns its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, ProcessError> {
        let path = self.directory.path().join(name);
        let failed = |reason| ProcessError::Io { what: path.display().to_string(), reason };
        std::fs::write(&path, content).map_err(failed)?;
        Ok(path)
    }

    /// Creates a file of this name, whose content is written as it is made; returns its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_with(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<PathBuf, ProcessError> {
        let path = self.directory.path().join(name);
        let written = File::create(&path).and_then(|file| {
            let mut file = io::BufWriter::new(file);
            content(&mut file)?;
            file.flush()
        });
        match written {
            Ok(()) => Ok(path),
            Err(reason) => Err(ProcessError::Io { what: path.display().to_string(), reason }),
        }
    }

    /// Reads a file that the program may have written; empty if it is gone.
    ///
    /// # Errors
    /// It cannot be read or is too large.
    pub fn read(&self, name: &str) -> Result<String, ProcessError> {
        self.read_within(name, MAX_FILE)
    }

    fn read_within(&self, name: &str, limit: u64) -> Result<String, ProcessError> {
        let path = self.directory.path().join(name);
        let failed = |reason| ProcessError::Io { what: name.to_owned(), reason };
        match bounded_read::read_file(&path, limit) {
            Ok(bytes) => String::from_utf8(bytes)
                .map_err(|e| failed(io::Error::new(io::ErrorKind::InvalidData, e.utf8_error()))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(e) => Err(failed(e)),
        }
    }
}

/// A file that a program wrote and that nobody has read yet: who reads it has the memory for it first. It is there until this is dropped.
#[derive(Clone, Debug, Default)]
pub struct OutputFile {
    name: &'static str,
    /// Where it is; `None`: it is empty.
    scratch: Option<Arc<Scratch>>,
}

impl OutputFile {
    /// The file of this name; an empty one does not keep its directory.
    #[must_use]
    pub fn new(scratch: &Arc<Scratch>, name: &'static str) -> Self {
        let file = Self { name, scratch: Some(Arc::clone(scratch)) };
        if file.size() == 0 { Self { name, scratch: None } } else { file }
    }

    /// How many bytes it has now; 0 if it is gone.
    #[must_use]
    pub fn size(&self) -> u64 {
        let path = self.scratch.as_ref().map(|scratch| scratch.directory.path().join(self.name));
        path.and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len())
    }

    /// Reads it. `limit`: its maximal size, in bytes.
    ///
    /// # Errors
    /// It cannot be read, is larger, or no text.
    pub fn read(&self, limit: u64) -> Result<String, ProcessError> {
        let Some(scratch) = &self.scratch else { return Ok(String::new()) };
        scratch.read_within(self.name, limit)
    }
}

#[cfg(test)]
mod tests;
