//! The memory limit of this process: the least of its cgroup's, its resource limits and the machine's memory.
//!
//! Owns reading those limits, once. Users decide on the shares that they take.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::bounded_read::{MAX_TEXT, read_text};
use rustix::process::{Resource, getrlimit};

/// The memory limit in bytes: the least of the limits of its cgroup and of those above it, of `ulimit -d` and `-v`,
/// and of the machine's memory. Without any of them, 4 GiB.
#[must_use]
pub fn memory_limit() -> u64 {
    static LIMIT: LazyLock<u64> = LazyLock::new(|| {
        let own = read_text("/proc/self/cgroup".as_ref(), MAX_TEXT).unwrap_or_default();
        let cgroup = cgroup_limit(Path::new("/sys/fs/cgroup"), &own);
        let resources = [Resource::Data, Resource::As].into_iter().filter_map(|r| getrlimit(r).current);
        let total = read_text("/proc/meminfo".as_ref(), MAX_TEXT).ok().and_then(|text| total_of(&text));
        cgroup.into_iter().chain(resources).chain(total).min().unwrap_or(4 << 30)
    });
    *LIMIT
}

/// The share of one input, in bytes: the least, and the most.
const INPUT: (u64, u64) = (16 << 20, 1 << 30);

/// How many bytes of memory one input may take, such as an answer of a server or the documents of a file: an eighth of the limit of this
/// process, at least 16 MiB and at most 1 GiB.
#[must_use]
pub fn input_limit() -> u64 {
    (memory_limit() / 8).clamp(INPUT.0, INPUT.1)
}

/// The least limit of a process's cgroup and of those above it. `own`: `/proc/self/cgroup`.
fn cgroup_limit(root: &Path, own: &str) -> Option<u64> {
    let mut limits = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (top, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|c| c == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let own = top.join(path.trim_start_matches('/'));
        // In a container the path may be the host's; then the mounted root is the container's own.
        let folders = own.ancestors().take_while(|folder| folder.starts_with(&top)).map(Path::to_owned);
        limits.extend(folders.chain([top.clone()]).filter_map(|folder: PathBuf| {
            // `max` means no limit; version 1 writes a huge number.
            read_text(&folder.join(file), MAX_TEXT).ok()?.trim().parse::<u64>().ok()
        }));
    }
    limits.into_iter().min()
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(cgroup_limit(root.path(), "0::/a/b\n"), None);
        put("a/memory.max", "1000\n");
        put("a/b/memory.max", "max\n");
        assert_eq!(cgroup_limit(root.path(), "0::/a/b\n"), Some(1000));
        // A container with the host's path: only the root exists.
        put("memory.max", "2000\n");
        assert_eq!(cgroup_limit(root.path(), "0::/kubepods/pod1\n"), Some(2000));
        put("memory/x/memory.limit_in_bytes", "300\n");
        let first_version = "5:cpu,cpuacct:/x\n4:memory:/x\n1:name=systemd:/x\n";
        assert_eq!(cgroup_limit(root.path(), first_version), Some(300));
        assert_eq!(cgroup_limit(root.path(), ""), None);
    }

    #[test]
    fn the_machines_memory_is_a_limit() {
        assert_eq!(total_of("MemTotal:       24000 kB\nMemFree: 1 kB\n"), Some(24_576_000));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert!(memory_limit() > 0);
    }
}
