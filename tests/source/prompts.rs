//! Passwords that are asked for on a terminal of the test's own, and what is said where there is none.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::registries::Registry;
use super::repositories::repository;
use super::server::Server;
use super::support::User;

/// Both ends of a terminal.
fn terminal() -> (File, File) {
    let own: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, Vec::new()).unwrap().into_string().unwrap();
    let other = File::options().read(true).write(true).open(name).unwrap();
    (File::from(own), other)
}

/// Ours with standard input and output on a terminal.
fn start(user: &User, args: &[&str], terminal: &File) -> Child {
    let side = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), args);
    command.stdin(side()).stdout(side()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads what the terminal shows until a text is there.
fn wait_for(own: &File, child: &mut Child, shown: &mut String, text: &str) {
    let mut buffer = [0; 1024];
    let step = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !shown.contains(text) {
        if poll(&mut [PollFd::new(own, PollFlags::IN)], Some(&step)).unwrap() == 0 {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?} before {text:?}: {shown:?}");
            continue;
        }
        let n = (&*own).read(&mut buffer).unwrap();
        shown.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
}

#[test]
fn a_password_is_asked_for_and_not_shown() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let registry = Registry::start(true);
    server.require("Basic bWU6c2VjcmV0");
    let url = format!("{}/charts", server.url);
    let add: &[&str] = &["repo", "add", "a", &url, "--username", "me"];
    let login: &[&str] = &["registry", "login", &registry.host, "--plain-http"];
    for (args, questions, done) in [
        (add, &[("Password: ", "secret")][..], "has been added"),
        (login, &[("Username: ", "me"), ("Password: ", "secret")], "Login Succeeded"),
    ] {
        let (mut own, other) = terminal();
        let mut child = start(&user, args, &other);
        let mut shown = String::new();
        for (question, answer) in questions {
            wait_for(&own, &mut child, &mut shown, question);
            let echoes = tcgetattr(&other).unwrap().local_modes.contains(LocalModes::ECHO);
            assert_eq!(echoes, *question == "Username: ", "{question}");
            writeln!(own, "{answer}").unwrap();
        }
        wait_for(&own, &mut child, &mut shown, done);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
        assert!(!shown.contains("secret"), "{shown}");
        assert!(tcgetattr(&other).unwrap().local_modes.contains(LocalModes::ECHO), "it shows again");
    }
    assert!(user.read(".config/helm/registry/config.json").contains("bWU6c2VjcmV0"));
}

#[test]
fn an_empty_answer_is_refused_and_an_interrupt_leaves_the_terminal_as_it_was() {
    let user = User::new();
    let (mut own, other) = terminal();
    let args = ["registry", "login", "127.0.0.1:1", "--plain-http", "-u", "me"];
    let (mut child, mut shown) = (start(&user, &args, &other), String::new());
    wait_for(&own, &mut child, &mut shown, "Password: ");
    writeln!(own).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "Error: password required\n");
    let (mut child, mut shown) = (start(&user, &args, &other), String::new());
    wait_for(&own, &mut child, &mut shown, "Password: ");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "Error: interrupted\n");
    assert!(tcgetattr(&other).unwrap().local_modes.contains(LocalModes::ECHO));
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    let user = User::new();
    for args in [
        &["repo", "add", "a", "http://127.0.0.1:1", "--username", "me"][..],
        &["registry", "login", "127.0.0.1:1"],
        &["registry", "login", "127.0.0.1:1", "-u", "me"],
    ] {
        let error = user.fails(args);
        assert!(
            error.contains("standard input is no terminal") && error.contains("--password-stdin"),
            "{error}"
        );
    }
}
