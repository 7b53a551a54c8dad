//! Git over smart HTTP by git's own `http-backend`; over SSH by a small server, and by a stand-in for the program `ssh` that writes
//! down what it is told and then does on this machine what it was to do on the other.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use windlass_testing::SshServer;

use super::git::{repository, size};
use super::support::User;

/// Serves the bare repositories of a directory; what was asked for is noted.
fn smart_server(root: PathBuf, login: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (root, notes) = (root.clone(), Arc::clone(&notes));
            // One request each: a client that went away is no matter.
            thread::spawn(move || drop(serve(stream, &root, login, &notes)));
        }
    });
    (url, asked)
}

fn serve(stream: TcpStream, root: &Path, login: &str, notes: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (method, target) =
        (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body)?;
    if header("authorization") != login {
        let refusal = "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"git\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return stream.get_mut().write_all(refusal.as_bytes());
    }
    notes.lock().unwrap().push(format!("{method} {target}"));
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    backend.stdin.take().unwrap().write_all(&body)?;
    let answer = backend.wait_with_output()?.stdout;
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(0);
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.lines().find_map(|l| l.strip_prefix("Status: ")).unwrap_or("200 OK");
    let out = stream.get_mut();
    write!(
        out,
        "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len() - end - 4
    )?;
    out.write_all(&answer[end + 4..])
}

#[test]
fn smart_servers_hand_out_single_commits() {
    let user = User::new();
    let first = repository(&user);
    let (url, asked) = smart_server(user.path(""), "Basic bWU6c2VjcmV0");
    let with_login = url.replace("http://", "http://me:secret@");
    for (query, want) in [("", "2"), ("?tag=v1.0.0", "1"), ("?ref=next", "3"), ("?semver=~1.1", "2")] {
        assert_eq!(size(&user, &format!("git+{with_login}/repo.git//charts/web{query}")), want, "{query}");
    }
    assert_eq!(size(&user, &format!("git+{with_login}/repo.git//charts/web?commit={first}")), "1");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().any(|a| a == "POST /repo.git/git-upload-pack"), "{asked:?}");
    assert!(!asked.iter().any(|a| a.contains("/objects/")), "not file by file: {asked:?}");
    let error = user.fails(&["show", "values", &format!("git+{url}/repo.git//charts/web?tag=v1.1.0")]);
    assert!(error.contains("git ls-remote http://"), "{error}");
    let error = user.fails(&[
        "show",
        "values",
        &format!("git+{}/repo.git//charts/web", url.replace("http://", "http://me:wrong-one@")),
    ]);
    assert!(error.contains("git ls-remote http://") && !error.contains("wrong-one"), "{error}");
    let error = user.fails(&["show", "values", &format!("git+{with_login}/none.git//charts/web")]);
    assert!(error.contains("none.git") && !error.contains("secret"), "{error}");
}

#[test]
fn ssh_is_the_users_own_with_its_keys_and_hosts_and_never_asks() {
    let user = User::new();
    repository(&user);
    user.write("bin/ssh", "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$HOME/told\"\nenv > \"$HOME/variables\"\nfor last; do :; done\nexec sh -c \"$last\"\n");
    fs::set_permissions(user.path("bin/ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", user.path("bin").display());
    let reference =
        format!("git+ssh://git@example.test:2222{}//charts/web?ref=next", user.path("repo.git").display());
    let show = |variables: &[(&str, &str)]| {
        let mut command =
            user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), &["show", "values", &reference]);
        let output = command.env("PATH", &path).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("size: 3"));
        user.read("told")
    };
    let told: Vec<String> = show(&[("SSH_AUTH_SOCK", "/agent")]).lines().map(str::to_owned).collect();
    // It must not ask for a password or whether a host is known: the user's own ssh has the last word on both.
    assert!(told.contains(&"-oBatchMode=yes".to_owned()), "{told:?}");
    assert!(
        !told.iter().any(|t| t.contains("StrictHostKeyChecking") || t.contains("UserKnownHostsFile")),
        "{told:?}"
    );
    assert!(
        told.windows(2).any(|w| w == ["-p", "2222"]) && told.contains(&"git@example.test".to_owned()),
        "{told:?}"
    );
    assert!(told.last().unwrap().starts_with("git-upload-pack '"), "{told:?}");
    let variables = user.read("variables");
    for want in [
        "SSH_AUTH_SOCK=/agent",
        &format!("HOME={}", user.path("").display().to_string().trim_end_matches('/')),
    ] {
        assert!(variables.lines().any(|l| l.trim_end_matches('/') == want), "{want}\n{variables}");
    }
    // Keys and known hosts of the user's choice.
    let own = "ssh -i key -oUserKnownHostsFile=hosts -oStrictHostKeyChecking=yes";
    let told = show(&[("GIT_SSH_COMMAND", own)]);
    assert!(told.starts_with("-i\nkey\n-oUserKnownHostsFile=hosts\n-oStrictHostKeyChecking=yes\n"), "{told}");
}

#[test]
fn a_server_of_ssh_is_known_by_its_key_and_knows_ours() {
    let user = User::new();
    let first = repository(&user);
    let key = |name: &str| SshServer::key(&user.path(""), name).unwrap();
    let ((host, host_public), (ours, ours_public), (strange, strange_public)) =
        (key("host"), key("ours"), key("strange"));
    user.write("authorized", &format!("{ours_public}\n"));
    let server = SshServer::start(&host, &user.path("authorized")).unwrap();
    user.write("hosts", &format!("[127.0.0.1]:{} {host_public}\n", server.port()));
    user.write("others", &format!("[127.0.0.1]:{} {strange_public}\n", server.port()));
    let ask = |key: &Path, hosts: &str, query: &str| {
        let place = format!("git+ssh://git@127.0.0.1:{}{}", server.port(), user.path("repo.git").display());
        let ssh = format!(
            "ssh -F none -i {} -oIdentitiesOnly=yes -oBatchMode=yes -oStrictHostKeyChecking=yes -oUserKnownHostsFile={}",
            key.display(),
            user.path(hosts).display()
        );
        let reference = format!("{place}//charts/web{query}");
        let arguments = ["show", "values", &reference];
        let mut command = user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), &arguments);
        let output = command.env("GIT_SSH_COMMAND", ssh).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let commit = format!("?commit={first}");
    for (query, want) in
        [("", "2"), ("?tag=v1.0.0", "1"), ("?ref=next", "3"), ("?semver=~1.1", "2"), (&commit, "1")]
    {
        let (good, told) = ask(&ours, "hosts", query);
        assert!(good && told.contains(&format!("size: {want}")), "{query}: {told}");
    }
    let (good, told) = ask(&ours, "others", "?tag=v1.1.0");
    assert!(!good && told.contains("REMOTE HOST IDENTIFICATION HAS CHANGED"), "{told}");
    let (good, told) = ask(&strange, "hosts", "?tag=v1.1.0");
    assert!(!good && told.contains("Permission denied"), "{told}");
}
