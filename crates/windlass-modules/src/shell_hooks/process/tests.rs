//! Programs that end, hang, flood, fork and are given up.

use std::time::{Duration, Instant};

use super::*;

fn shell(script: &str) -> Program {
    Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()], ..Program::default() }
}

async fn lines(program: &Program) -> (Result<ProcessResult, ProcessError>, Vec<String>) {
    let mut seen = Vec::new();
    let ended =
        run(program, Stdout::Lines, |stream, line| seen.push(format!("{}: {line}", stream.name()))).await;
    (ended, seen)
}

#[tokio::test]
async fn lines_environment_directory_and_usage() {
    let dir = tempfile::tempdir().unwrap();
    let mut program =
        shell("echo \"$A\"; pwd >&2; printf 'no end'; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    program.environment = vec![("A".to_owned(), "b c".into())];
    program.directory = Some(dir.path().canonicalize().unwrap());
    let (ended, mut seen) = lines(&program).await;
    seen.sort();
    let directory = program.directory.unwrap();
    assert_eq!(
        seen,
        [format!("stderr: {}", directory.display()), "stdout: b c".into(), "stdout: no end".into()]
    );
    let usage = ended.unwrap().usage;
    assert!(usage.user + usage.system > Duration::ZERO && usage.max_rss_bytes > 0, "{usage:?}");
    assert!(usage.took >= usage.user);
}

#[tokio::test]
async fn failures_tell_status_and_stderr() {
    let (ended, _) = lines(&shell("echo out; echo first >&2; echo last >&2; exit 3")).await;
    assert_eq!(ended.unwrap_err().to_string(), "exit status 3: first\nlast");
    let (ended, _) = lines(&shell("kill -TERM $$")).await;
    assert_eq!(ended.unwrap_err().to_string(), "ended by signal 15");
    let absent = Program { path: "/nowhere/hook".into(), ..Program::default() };
    let error = lines(&absent).await.0.unwrap_err().to_string();
    assert!(error.starts_with("cannot start /nowhere/hook: "), "{error}");
}

#[tokio::test]
async fn a_hang_ends_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let mut program = shell(&format!("sleep 600 & echo $! > {}; echo told >&2; wait", pid.display()));
    program.timeout = Some(Duration::from_millis(300));
    let started = Instant::now();
    let (ended, _) = lines(&program).await;
    assert_eq!(ended.unwrap_err().to_string(), "killed after 0.3s, its timeout: told");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(gone(&pid).await, "the child lives on");
}

#[tokio::test]
async fn what_forks_away_does_not_hold_us() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let started = Instant::now();
    let (ended, seen) = lines(&shell(&format!("sleep 600 & echo $! > {}; echo done", pid.display()))).await;
    assert!(ended.is_ok() && seen == ["stdout: done"], "{ended:?} {seen:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(gone(&pid).await, "the daemon lives on");
}

/// Whether the process of a pid file ends.
async fn gone(file: &std::path::Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    for _ in 0..200 {
        // One that nobody has reaped yet is gone, too.
        match std::fs::read_to_string(&stat) {
            Err(_) => return true,
            Ok(stat) if stat.contains(") Z ") => return true,
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    false
}

#[tokio::test]
async fn floods_are_cut() {
    let (ended, seen) = lines(&shell("head -c 20000 /dev/zero | tr '\\0' x; echo; echo next")).await;
    assert!(ended.is_ok());
    assert_eq!(seen[0].len(), "stdout: ".len() + MAX_LINE + "... (cut)".len());
    assert_eq!(seen[1], "stdout: next");
    let (ended, seen) =
        lines(&shell("yes 0123456789012345678901234567890123456789 | head -c 20000000; exit 1")).await;
    assert_eq!(ended.unwrap_err().to_string(), "exit status 1");
    let total: usize = seen.iter().map(String::len).sum();
    assert!(total + seen.len() * PER_LINE < 2 * MAX_OUTPUT, "{total} in {} lines", seen.len());
    assert!(seen.last().unwrap().ends_with("further bytes of output are left out"), "{:?}", seen.last());
}

#[tokio::test]
async fn an_answer_is_whole_or_refused() {
    let ended = run(&shell("printf 'a\\nb'; echo log >&2"), Stdout::Answer, |_, _| ()).await.unwrap();
    assert_eq!(ended.stdout, b"a\nb");
    let flood = run(&shell("yes | head -c 3000000"), Stdout::Answer, |_, _| ()).await;
    assert!(matches!(flood, Err(ProcessError::Flood)), "{flood:?}");
}

#[tokio::test]
async fn a_run_that_is_dropped_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let program = shell(&format!("echo $$ > {}; echo up; sleep 600", pid.display()));
    let (sender, mut up) = tokio::sync::mpsc::unbounded_channel();
    let running = async move {
        let ended = run(&program, Stdout::Lines, |_, _| sender.send(()).unwrap_or_default()).await;
        panic!("it ended: {ended:?}");
    };
    tokio::select! {
        () = running => {}
        _ = up.recv() => {}
    }
    assert!(gone(&pid).await, "it lives on");
}

#[test]
fn scratch_files_are_private_and_go() {
    use std::os::unix::fs::PermissionsExt as _;
    let base = tempfile::tempdir().unwrap();
    let scratch = Scratch::new(&base.path().join("a/b"), false).unwrap();
    let path = scratch.write("x", b"1").unwrap();
    let mode = std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!((scratch.read("x").unwrap(), scratch.read("absent").unwrap()), ("1".into(), String::new()));
    drop(scratch);
    assert!(!path.exists());
    let scratch = Arc::new(Scratch::new(base.path(), false).unwrap());
    let path = scratch.write_with("y", |out| out.write_all(b"1234")).unwrap();
    let (file, empty) = (OutputFile::new(&scratch, "y"), OutputFile::new(&scratch, "absent"));
    drop(scratch);
    assert_eq!(
        (file.size(), file.read(4).unwrap(), empty.read(4).unwrap()),
        (4, "1234".into(), String::new())
    );
    let error = file.read(3).unwrap_err().to_string();
    assert_eq!(error, "y: larger than 3 bytes", "who has memory for less reads none of it");
    drop(file);
    assert!(!path.exists(), "an empty one does not keep the directory");
    drop(empty);
    let kept = Scratch::new(base.path(), true).unwrap().write("x", b"1").unwrap();
    assert!(kept.exists());
}

#[tokio::test]
async fn a_script_that_nobody_can_run_tells_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hook");
    let of = async |text: &str| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        lines(&Program { path: path.clone(), ..Program::default() }).await.0.unwrap_err().to_string()
    };
    let told = of("#!/nonexistent/bash -e\ntrue\n").await;
    assert!(told.contains("first line names \"/nonexistent/bash -e\", which is not there"), "{told}");
    let told = of("#!/bin/sh\r\ntrue\r\n").await;
    assert!(told.contains("lines end as on Windows"), "{told}");
    let gone = Program { path: dir.path().join("gone"), ..Program::default() };
    let told = lines(&gone).await.0.unwrap_err().to_string();
    assert!(told.ends_with("No such file or directory (os error 2)"), "{told}");
}
