//! A limit on the memory of a process, as a Pod has: a cgroup of its own where this process may make one, else what the kernel lets it
//! write to (`ulimit -d`), which counts stacks and reserved addresses too.

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the memory of a process is limited. Dropped after the process, it leaves nothing.
pub(crate) enum MemoryLimit {
    /// A cgroup, by its directory.
    Group(PathBuf),
    /// The data segment, in KiB.
    DataSegment(u64),
}

impl MemoryLimit {
    /// A limit of so many bytes by a cgroup, or of so many KiB by `ulimit -d`.
    pub(crate) fn new(bytes: u64, data_segment_kib: u64) -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let made = parents(&own).into_iter().find_map(|(parent, file)| make(&parent, file, bytes).ok());
        made.map_or(Self::DataSegment(data_segment_kib), Self::Group)
    }

    /// A command that becomes a program under the limit: the program's arguments follow.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let limited = match self {
            Self::Group(directory) => format!("echo $$ > '{}'", directory.join("cgroup.procs").display()),
            Self::DataSegment(kib) => format!("ulimit -d {kib}"),
        };
        command.args(["-c", &format!("mkdir -p \"$TMPDIR\" && {limited} && exec \"$0\" \"$@\""), program]);
        command
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Self::Group(directory) = self {
            drop(fs::remove_dir(directory));
        }
    }
}

/// The memory cgroups of this process, by version, and the file of each that holds the limit. `own`: `/proc/self/cgroup`.
fn parents(own: &str) -> Vec<(PathBuf, &'static str)> {
    let mut all = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the path may be the host's: then the root is the container's own.
        let own = Path::new(root).join(path.trim_start_matches('/'));
        all.extend([(own, file), (PathBuf::from(root), file)]);
    }
    all
}

/// Makes a cgroup with a limit, or leaves nothing.
fn make(parent: &Path, file: &str, bytes: u64) -> Result<PathBuf> {
    let directory = parent.join(format!("windlass-test-{}", std::process::id()));
    fs::create_dir(&directory)?;
    fs::write(directory.join(file), bytes.to_string()).inspect_err(|_| drop(fs::remove_dir(&directory)))?;
    Ok(directory)
}
