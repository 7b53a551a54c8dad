//! A scratch directory and the processes that live in it; all of it goes when its owner goes, however that happens.
//!
//! Three kinds of process, each a plain child of ours:
//!
//! - the *leader*, `cat`, does nothing but found a process group and hold it open;
//! - the components join that group as they are spawned, so there is no moment at which one is outside it, and
//!   a Ctrl-C in the terminal reaches none of them;
//! - the *guard*, a few lines of `sh` in a group of its own, waits for the end of its standard input, whose other
//!   end only we hold. The kernel closes that end even when we are killed outright. The guard then kills the group and
//!   removes the directory.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, thread};

use rustix::process::Pid;

use crate::progress::say;
use crate::{Error, Result};

/// `$1`: process group, `$2`: directory. A killed process may still be closing its files, hence the retries.
/// (`kill -KILL --` is not understood by every `sh`.)
const GUARD: &str = r#"
trap '' HUP INT TERM
read -r _
kill -s KILL -- "-$1" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    rm -rf -- "$2" 2>/dev/null && exit 0
    sleep 0.1
done
exit 1
"#;

#[derive(Debug)]
pub(crate) struct Processes {
    directory: PathBuf,
    guard: Child,
    leader: Child,
    components: Vec<Component>,
}

#[derive(Debug)]
struct Component {
    name: &'static str,
    child: Child,
    program: PathBuf,
    arguments: Vec<String>,
}

impl Processes {
    pub(crate) fn new() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("windlass-cluster-")
            .tempdir()
            .and_then(|directory| {
                fs::create_dir(directory.path().join("logs"))?;
                Ok(directory)
            })
            .map_err(|source| Error::Io { what: "make a scratch directory".to_owned(), source })?;

        let mut leader = Command::new("cat");
        leader.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let leader = leader.spawn().map_err(Error::io("run", Path::new("cat")))?;

        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "windlass-guard", &leader.id().to_string()]).arg(directory.path());
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guard = guard.spawn().map_err(Error::io("run", Path::new("sh")))?;

        // From here on the directory is the guard's to remove.
        Ok(Self { directory: directory.keep(), guard, leader, components: Vec::new() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.directory.join("logs").join(format!("{component}.log"))
    }

    /// Starts a component. It sees nothing of our environment but the way to its programs.
    pub(crate) fn spawn(&mut self, name: &'static str, program: &Path, arguments: &[String]) -> Result<()> {
        let child = self.start(name, program, arguments)?;
        self.components.push(Component {
            name,
            child,
            program: program.to_owned(),
            arguments: arguments.to_vec(),
        });
        Ok(())
    }

    /// Kills a component outright and starts it again as it was started.
    pub(crate) fn restart(&mut self, name: &str) -> Result<()> {
        let Some(place) = self.components.iter().position(|component| component.name == name) else {
            return Err(Error::NoComponent { name: name.to_owned() });
        };
        let component = &mut self.components[place];
        drop(component.child.kill());
        drop(component.child.wait());
        let Component { name, program, arguments, .. } = &self.components[place];
        let child = self.start(name, program, arguments)?;
        self.components[place].child = child;
        Ok(())
    }

    /// The process of a component.
    pub(crate) fn pid(&self, name: &str) -> Result<Pid> {
        let found = self.components.iter().find(|component| component.name == name);
        found
            .map(|component| Pid::from_child(&component.child))
            .ok_or_else(|| Error::NoComponent { name: name.to_owned() })
    }

    fn start(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Child> {
        let log_path = self.log(name);
        let log = File::options().create(true).append(true).open(&log_path);
        let log = log.map_err(Error::io("create", &log_path))?;
        let errors = log.try_clone().map_err(Error::io("open", &log_path))?;
        Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.directory)
            .current_dir(&self.directory)
            .process_group(Pid::from_child(&self.leader).as_raw_nonzero().get())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(Error::io("run", program))
    }

    /// An error if a component has ended: none is meant to.
    pub(crate) fn check(&mut self) -> Result<()> {
        for Component { name, child, .. } in &mut self.components {
            if let Ok(Some(status)) = child.try_wait() {
                let log = self.directory.join("logs").join(format!("{name}.log"));
                return Err(Error::component(name, format!("ended by itself ({status})"), &log));
            }
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let mut children: Vec<&mut Child> =
            self.components.iter_mut().map(|component| &mut component.child).collect();
        children.push(&mut self.leader);
        for child in &mut children {
            drop(child.kill());
        }
        // They are reaped after the guard has ended, lest it kill a group whose number has been given away.
        drop(self.guard.stdin.take());
        let guard = self.guard.wait();
        for child in children {
            drop(child.wait());
        }
        match guard {
            Ok(status) if status.success() => {}
            _ if thread::panicking() => {}
            other => say(format_args!("{} is still there: {other:?}", self.directory.display())),
        }
    }
}
