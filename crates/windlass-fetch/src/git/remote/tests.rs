//! References, and repositories whose authors mean ill: floods, trees that name each other, addresses of this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use tempfile::TempDir;

use super::*;

#[test]
fn references_are_no_options() {
    assert_eq!(GitRevision::of_reference("").unwrap(), GitRevision::Head);
    assert_eq!(GitRevision::of_reference("v1").unwrap(), GitRevision::Any("v1".to_owned()));
    for bad in ["-x", "--upload-pack=x", "a..b"] {
        assert!(GitRevision::of_reference(bad).is_err(), "{bad}");
    }
}

#[test]
fn refs_are_resolved() {
    let id = |c: &str| c.repeat(40);
    let refs = format!(
        "{0}\tHEAD\n{0}\trefs/heads/main\n{1}\trefs/heads/v1\n{2}\trefs/tags/v1.0.0\n{3}\trefs/tags/v1.0.0^{{}}\n{4}\trefs/tags/v1.10.0\n{5}\trefs/pull/1/head\n",
        id("a"),
        id("b"),
        id("c"),
        id("d"),
        id("e"),
        id("1"),
    );
    let table = [
        (GitRevision::Head, Some("a")),
        (GitRevision::Branch("v1".into()), Some("b")),
        (GitRevision::Tag("v1.0.0".into()), Some("d")),
        (GitRevision::Name("refs/pull/1/head".into()), Some("1")),
        (GitRevision::Name("refs/pull/2/head".into()), None),
        (GitRevision::Any("v1.0.0".into()), Some("d")),
        (GitRevision::Any("main".into()), Some("a")),
        (GitRevision::Any(id("f")), Some("f")),
        (GitRevision::Semver("^1".into()), Some("e")),
        (GitRevision::Semver("~1.0".into()), Some("d")),
        (GitRevision::Semver("2.x".into()), None),
        (GitRevision::Tag("main".into()), None),
    ];
    for (point, want) in table {
        let found = resolve(&refs, &point, "url").ok().map(|r| r.commit);
        assert_eq!(found, want.map(id), "{point:?}");
    }
}

pub(in super::super) fn git(directory: &Path, args: &[&str], input: &str) -> String {
    let mut command = Command::new("git");
    command.current_dir(directory).args(["-c", "user.name=x", "-c", "user.email=x@example.com"]).args(args);
    command.env("HOME", directory);
    let limits = Limits { output: 1 << 20, time: None, memory: None, group: Group::Own };
    let ended = child_process::run(&mut command, input.as_bytes().to_vec(), &limits).unwrap();
    assert!(ended.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().trim().to_owned()
}

pub(in super::super) fn isolated(no_local_addresses: bool) -> GitAccess {
    GitAccess { isolated: true, no_local_addresses, ..GitAccess::default() }
}

/// A repository whose trees name each other: `levels` of them, each with `width` entries, over one file.
pub(in super::super) fn repository_of_trees(levels: usize, width: usize, content: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    git(home.path(), &["init", "--quiet", "--initial-branch=main"], "");
    let mut entry = ("100644 blob", git(home.path(), &["hash-object", "-w", "--stdin"], content));
    for _ in 0..levels {
        let lines: String = (0..width).map(|n| format!("{} {}\t{n}\n", entry.0, entry.1)).collect();
        entry = ("040000 tree", git(home.path(), &["mktree"], &lines));
    }
    let commit = git(home.path(), &["commit-tree", "-m", "x", &entry.1], "");
    git(home.path(), &["update-ref", "refs/heads/main", &commit], "");
    home
}

async fn check_out(home: &Path, access: &GitAccess, directories: &[String]) -> Result<u64, String> {
    let url = format!("file://{}", home.display());
    let git = GitRemote { url: &url, access };
    let scratch = tempfile::tempdir().unwrap();
    let commit = git.resolve(scratch.path(), &GitRevision::Head).await.unwrap();
    let root = git.checkout(scratch.path(), &commit, false, directories).await;
    let root = root.map_err(|error| error.to_string())?;
    measure(&root).await.map_err(|error| error.to_string())
}

/// 20^8 files in 200 kB: git would list them in memory before it writes the first one.
#[tokio::test]
async fn trees_that_name_each_other_are_not_checked_out() {
    let home = repository_of_trees(8, 20, "x");
    let told = check_out(home.path(), &isolated(false), &[]).await.unwrap_err();
    assert!(
        told.contains("the list of the files of HEAD: it printed more than 67108864 bytes")
            && told.contains(&*home.path().to_string_lossy()),
        "{told}"
    );
}

#[tokio::test]
async fn files_are_counted_before_they_are_checked_out() {
    // 27 files of 200 kB, of which the repository has one.
    let home = repository_of_trees(3, 3, &"0123456789".repeat(20_000));
    let access = GitAccess { size_limit: Some(3 << 20), ..isolated(false) };
    let told = check_out(home.path(), &access, &[]).await.unwrap_err();
    assert!(told.ends_with("the files of HEAD have 5400000 bytes, more than 3145728"), "{told}");
    let one = ["0/1".to_owned()];
    assert!(check_out(home.path(), &access, &one).await.unwrap() < 3 << 20);
}

/// A server that answers one request with a head and what `body` writes. Ends with the first client that has heard enough.
fn server(body: fn(&mut TcpStream) -> std::io::Result<()>) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let task = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap_or(0) > 2 {
            line.clear();
        }
        let mut stream = stream.into_inner();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-advertisement\r\nconnection: close\r\n\r\n";
        // A client that went away is what the test is about.
        drop(stream.write_all(head.as_bytes()).and_then(|()| body(&mut stream)));
    });
    (address, task)
}

fn packet(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

#[tokio::test]
async fn a_flood_of_references_is_cut_off_while_it_comes() {
    let (address, task) = server(|stream| {
        let head = format!("{}0000", packet("# service=git-upload-pack\n"));
        stream.write_all(head.as_bytes())?;
        let id = "a".repeat(40);
        stream.write_all(packet(&format!("{id} refs/heads/main\0multi_ack\n")).as_bytes())?;
        for n in 0..70_000 {
            let long = "x".repeat(200);
            let name = format!("{long}/{long}/{long}/{long}/{long}");
            stream.write_all(packet(&format!("{id} refs/heads/{n:08}/{name}\n")).as_bytes())?;
        }
        stream.write_all(b"0000")
    });
    let url = format!("http://{address}/r.git");
    let access = isolated(false);
    let git = GitRemote { url: &url, access: &access };
    let scratch = tempfile::tempdir().unwrap();
    let told = git.resolve(scratch.path(), &GitRevision::Head).await.unwrap_err().to_string();
    assert_eq!(told, format!("git ls-remote {url}: it printed more than 67108864 bytes"));
    task.join().unwrap();
}

/// Each way by which a URL of a repository leads to this machine is refused before git is started.
#[tokio::test]
async fn repositories_are_not_at_addresses_of_this_machine() {
    for url in [
        "http://127.0.0.1:1/r.git",
        "http://127.0.0.%31:1/r.git",
        "http://localhos%74:1/r.git",
        "https://[::1]/r.git",
        "https://[fd00:ec2::23]/r.git",
        "ssh://evil?x@127.0.0.1/r.git",
        "ssh://evil#@127.0.0.1/r.git",
        "ssh://git@localhost/r.git",
        "ssh://git@does-not-exist.invalid/r.git",
        "git@127.0.0.1:r.git",
        "file:///r.git",
    ] {
        let access = GitAccess { timeout: Some(Duration::from_millis(1)), ..isolated(true) };
        let git = GitRemote { url, access: &access };
        let scratch = tempfile::tempdir().unwrap();
        let error = git.resolve(scratch.path(), &GitRevision::Head).await.unwrap_err();
        assert!(matches!(error, GitError::Reference(_)), "{url}: {error}");
    }
}
