//! Programs that are started and waited for, within limits of output, time and memory.
//!
//! Owns every start of a program: `clippy.toml` forbids it elsewhere. A program that exceeds a limit, or that nobody waits for any more, is
//! killed with its process group. Knows no program: what is started, and what its output means, is the caller's.

#![allow(clippy::disallowed_methods, reason = "programs are started here, and nowhere else")]

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

/// How many bytes are read at once.
const BLOCK: usize = 64 << 10;

/// Which process group a program is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// One of its own, which is killed as a whole.
    Own,
    /// That of this process, so that it may ask its user at the terminal. It alone is killed.
    Shared,
}

/// The limits of a program.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of standard output, and of standard error.
    pub output: u64,
    /// How long it may run; `None`: forever.
    pub time: Option<Duration>,
    /// Most bytes of memory that it may write to, and each process that it starts (`RLIMIT_DATA`); `None`: as many as this process. Linux
    /// alone has this limit.
    pub memory: Option<u64>,
    /// What is killed.
    pub group: Group,
}

/// A program that ended by itself.
#[derive(Debug)]
pub struct ProcessExit {
    /// Its status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// Why a program has no end of its own.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It cannot be started.
    #[error("{0}")]
    Start(io::Error),
    /// It printed more bytes than this, and was killed.
    #[error("it printed more than {0} bytes")]
    Output(u64),
    /// It took longer, and was killed.
    #[error("no end within {} seconds", .0.as_secs_f64())]
    Time(Duration),
    /// The system does not tell how it ended, or what it printed.
    #[error("{0}")]
    Wait(io::Error),
}

/// A started program.
#[derive(Debug)]
pub struct Started {
    /// The program.
    pub child: Child,
    /// Kills it when dropped.
    pub guard: KillOnDrop,
}

/// Kills a program when dropped: what nobody waits for must not run on.
#[derive(Debug)]
pub struct KillOnDrop(Arc<Target>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// What is killed; nothing once the program has been waited for, since its number may be another's then.
#[derive(Debug)]
struct Target {
    pid: Mutex<Option<Pid>>,
    group: Group,
}

impl Target {
    fn kill(&self) {
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended already.
        match (*pid, self.group) {
            (Some(pid), Group::Own) => drop(kill_process_group(pid, Signal::KILL)),
            (Some(pid), Group::Shared) => drop(kill_process(pid, Signal::KILL)),
            (None, _) => {}
        }
    }

    /// Waits for the program's end, and forgets its number with it.
    fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        *pid = None;
        child.wait()
    }
}

/// Starts a program, whose streams are the caller's. Its memory is limited as soon as it runs: what it reserves in its first microseconds is
/// its own doing, not that of its input, which comes later. A limit before that would take unsafe code between fork and exec.
///
/// # Errors
/// It cannot be started, or not within its memory.
pub fn start(command: &mut Command, group: Group, memory: Option<u64>) -> io::Result<Started> {
    if group == Group::Own {
        command.process_group(0);
    }
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let started = Started { child, guard: KillOnDrop(Arc::new(Target { pid: Mutex::new(pid), group })) };
    if let (Some(pid), Some(bytes)) = (pid, memory) {
        limit_memory(pid, bytes)?;
    }
    Ok(started)
}

/// Limits what a program may write to before it has done anything: a program starts others later than this.
#[cfg(target_os = "linux")]
fn limit_memory(pid: Pid, bytes: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let own = getrlimit(Resource::Data).current.unwrap_or(u64::MAX);
    let bytes = Some(bytes.min(own));
    match prlimit(Some(pid), Resource::Data, Rlimit { current: bytes, maximum: bytes }) {
        // It has ended already.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        result => Ok(result.map(drop)?),
    }
}

#[cfg(not(target_os = "linux"))]
fn limit_memory(_: Pid, _: u64) -> io::Result<()> {
    Ok(())
}

/// Runs a program to its end. `input`: its standard input, which it need not read.
///
/// # Errors
/// It cannot be started, or exceeds a limit.
pub fn run(command: &mut Command, input: Vec<u8>, limits: &Limits) -> Result<ProcessExit, ChildError> {
    wait(start_piped(command, &input, limits)?, input, limits)
}

/// The same without blocking. Dropped before its end, it kills the program.
///
/// # Errors
/// It cannot be started, or exceeds a limit.
pub async fn run_async(
    mut command: Command,
    input: Vec<u8>,
    limits: Limits,
) -> Result<ProcessExit, ChildError> {
    let started = start_piped(&mut command, &input, &limits)?;
    let guard = KillOnDrop(Arc::clone(&started.guard.0));
    let ended = tokio::task::spawn_blocking(move || wait(started, input, &limits)).await;
    drop(guard);
    ended.map_err(|error| ChildError::Wait(io::Error::other(error)))?
}

fn start_piped(command: &mut Command, input: &[u8], limits: &Limits) -> Result<Started, ChildError> {
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    start(command, limits.group, limits.memory).map_err(ChildError::Start)
}

/// What the threads of a program tell.
enum Event {
    Stdout(Result<Vec<u8>, ChildError>),
    Stderr(Result<Vec<u8>, ChildError>),
    ProcessExit,
}

/// Waits until a program has ended and its streams are closed. Its threads are not waited for: something that left the group may hold a
/// stream open.
fn wait(started: Started, input: Vec<u8>, limits: &Limits) -> Result<ProcessExit, ChildError> {
    let Started { mut child, guard } = started;
    let deadline = limits.time.map(|time| Instant::now() + time);
    let (events, heard) = mpsc::channel();
    let started = start_threads(&mut child, input, limits.output, events);
    let (mut stdout, mut stderr, mut ended) = (None, None, false);
    let outcome = loop {
        if let Err(error) = started {
            break Err(ChildError::Wait(error));
        }
        if let (Some(_), Some(_), true) = (&stdout, &stderr, ended) {
            break Ok(());
        }
        let event = match deadline {
            None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => heard.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        };
        match event {
            Ok(Event::Stdout(Ok(bytes))) => stdout = Some(bytes),
            Ok(Event::Stderr(Ok(bytes))) => stderr = Some(bytes),
            Ok(Event::Stdout(Err(error)) | Event::Stderr(Err(error))) => break Err(error),
            Ok(Event::ProcessExit) => ended = true,
            Err(RecvTimeoutError::Timeout) => break Err(ChildError::Time(limits.time.unwrap_or_default())),
            Err(RecvTimeoutError::Disconnected) => {
                break Err(ChildError::Wait(io::Error::other("its threads ended before it")));
            }
        }
    };
    if outcome.is_err() {
        guard.0.kill();
    }
    let status = guard.0.reap(&mut child).map_err(ChildError::Wait)?;
    outcome?;
    Ok(ProcessExit { status, stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default() })
}

/// Starts the threads that write to a program, read from it and wait for it.
///
/// # Errors
/// The system has no memory for another thread.
fn start_threads(child: &mut Child, input: Vec<u8>, output: u64, events: Sender<Event>) -> io::Result<()> {
    if let Some(mut stdin) = child.stdin.take() {
        spawn(move || drop(stdin.write_all(&input)))?;
    }
    listen(child.stdout.take(), output, &events, Event::Stdout)?;
    listen(child.stderr.take(), output, &events, Event::Stderr)?;
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return Ok(()) };
    spawn(move || {
        // Its number stays its own until it is reaped.
        let waited = loop {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(pid), options) {
                Err(rustix::io::Errno::INTR) => {}
                waited => break waited,
            }
        };
        drop((waited, events.send(Event::ProcessExit)));
    })
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().spawn(work).map(drop)
}

/// Reads a stream on a thread of its own.
fn listen(
    stream: Option<impl Read + Send + 'static>,
    limit: u64,
    events: &Sender<Event>,
    event: fn(Result<Vec<u8>, ChildError>) -> Event,
) -> io::Result<()> {
    let events = events.clone();
    spawn(move || {
        let bytes = stream.map_or(Ok(Vec::new()), |stream| read(stream, limit));
        // Nobody listens after a limit was exceeded.
        drop(events.send(event(bytes)));
    })
}

fn read(mut stream: impl Read, limit: u64) -> Result<Vec<u8>, ChildError> {
    let (mut bytes, mut block) = (Vec::new(), vec![0; BLOCK]);
    loop {
        match stream.read(&mut block) {
            Ok(0) => return Ok(bytes),
            Ok(count) if (bytes.len() + count) as u64 > limit => return Err(ChildError::Output(limit)),
            Ok(count) => bytes.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ChildError::Wait(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { output: 1 << 20, time: Some(Duration::from_secs(60)), memory: None, group: Group::Own };

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_keeps_its_limits_is_told_as_it_is() {
        let ended = run(&mut sh("cat; echo told >&2; exit 3"), b"input".to_vec(), &LIMITS).unwrap();
        assert_eq!(
            (ended.status.code(), &ended.stdout[..], &ended.stderr[..]),
            (Some(3), &b"input"[..], &b"told\n"[..])
        );
        // What does not read its input is not waited for to do so.
        let ended = run(&mut sh("exec true"), vec![0; 1 << 20], &LIMITS).unwrap();
        assert!(ended.status.success());
        let missing = run(&mut Command::new("/no/such/program"), Vec::new(), &LIMITS);
        assert!(matches!(missing, Err(ChildError::Start(_))), "{missing:?}");
    }

    /// Each would run or print for ever.
    #[test]
    fn what_exceeds_a_limit_is_killed_with_its_group() {
        let quick = Limits { time: Some(Duration::from_millis(200)), ..LIMITS };
        for (script, limits, told) in [
            ("yes", LIMITS, "it printed more than 1048576 bytes"),
            ("yes >&2", LIMITS, "it printed more than 1048576 bytes"),
            ("yes & wait", LIMITS, "it printed more than 1048576 bytes"),
            ("sleep 1000", quick, "no end within 0.2 seconds"),
            ("exec >&- 2>&-; sleep 1000", quick, "no end within 0.2 seconds"),
            ("sleep 1000 & exit 0", quick, "no end within 0.2 seconds"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("group");
            let script = format!("echo $$ > {}; {script}", file.display());
            let error = run(&mut sh(&script), Vec::new(), &limits).unwrap_err();
            assert_eq!(error.to_string(), told, "{script}");
            let group: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
            assert_ends(group);
        }
    }

    /// Fails unless all of a process group end; they are there until they are reaped.
    fn assert_ends(group: i32) {
        let until = Instant::now() + Duration::from_secs(30);
        let lives = || {
            let state = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            all.map(|entry| state(&entry.file_name().to_string_lossy())).any(|stat| {
                let fields: Vec<&str> =
                    stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
                fields.len() > 2 && fields[2] == group.to_string() && fields[0] != "Z"
            })
        };
        while lives() {
            assert!(Instant::now() < until, "the group {group} runs on");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("started");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let script = format!("echo $$ > {}; sleep 1000", pipe.display());
        let limits = Limits { time: None, ..LIMITS };
        let task = tokio::spawn(run_async(sh(&script), Vec::new(), limits));
        let started = tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe)).await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_ends(started.unwrap().trim().parse().unwrap());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_limited_of_all_that_a_program_starts() {
        let limits = Limits { memory: Some(64 << 20), ..LIMITS };
        // The limit is set once the program has started: this one begins when it gets its input, which comes after.
        let ended = run(&mut sh("read line; ulimit -d; sh -c 'ulimit -d'"), b"\n".to_vec(), &limits).unwrap();
        assert_eq!(String::from_utf8(ended.stdout).unwrap(), "65536\n65536\n");
    }
}
