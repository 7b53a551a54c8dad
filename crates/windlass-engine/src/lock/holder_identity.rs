//! The identity of this process in Leases and records, which other processes of the same machine can check.
//!
//! A lock whose holder has provably exited is free at once. The proof needs one kernel and one process namespace;
//! elsewhere nothing is claimed.

use std::{
    collections::BTreeSet,
    sync::{Mutex, OnceLock, PoisonError},
};

use windlass_base::bounded_read::{MAX_TEXT, read_text};

/// Tokens of this process that are in use.
static LIVE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Host, boot, process namespace, process and its start time: what identifies a process. Empty where they cannot be
/// read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    /// Host, boot and namespace: equal for all processes that can check each other.
    world: String,
    pid: u32,
    start: String,
}

fn read(path: &str) -> Option<String> {
    Some(read_text(path.as_ref(), MAX_TEXT).ok()?.trim().replace([' ', '/'], "-"))
}

/// The start time of a process, in ticks since boot: field 22, after the name in parentheses.
fn start_of(pid: u32) -> Option<String> {
    let stat = read_text(format!("/proc/{pid}/stat").as_ref(), MAX_TEXT).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

fn own() -> Option<&'static Process> {
    static OWN: OnceLock<Option<Process>> = OnceLock::new();
    let find = || {
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let namespace: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        let world = format!(
            "{}.{}.{namespace}",
            read("/proc/sys/kernel/hostname")?,
            read("/proc/sys/kernel/random/boot_id")?
        );
        let pid = std::process::id();
        Some(Process { world, pid, start: start_of(pid)? })
    };
    OWN.get_or_init(find).as_ref()
}

/// A name of this process for one lock, valid until it is dropped.
#[derive(Debug)]
pub(crate) struct HolderToken(String);

impl HolderToken {
    /// `holder` is for people; the rest makes the token unique.
    pub(crate) fn new(holder: &str) -> Self {
        let nonce = jiff::Timestamp::now().as_nanosecond();
        let place = own().map_or(String::new(), |p| format!("{}/{}/{}", p.world, p.pid, p.start));
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = format!("{holder}/{place}/{nonce:x}");
        while !live.insert(text.clone()) {
            text.push('x');
        }
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Drop for HolderToken {
    fn drop(&mut self) {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Whether the holder of a token has provably exited.
pub(crate) fn is_gone(token: &str) -> bool {
    let mut parts = token.rsplitn(5, '/').skip(1);
    let (Some(start), Some(pid), Some(world)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let (Some(own), Ok(pid)) = (own(), pid.parse::<u32>()) else { return false };
    if world != own.world {
        return false;
    }
    if pid == own.pid && start == own.start {
        return !LIVE.lock().unwrap_or_else(PoisonError::into_inner).contains(token);
    }
    start_of(pid).is_none_or(|now| now != start)
}

/// The part of a token that is for people.
pub(crate) fn holder_of(token: &str) -> &str {
    token.rsplitn(5, '/').nth(4).unwrap_or(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_proven_is_gone() {
        let token = HolderToken::new("windlass-1");
        let text = token.as_str().to_owned();
        assert_eq!(holder_of(&text), "windlass-1");
        assert!(!is_gone(&text), "it lives");
        drop(token);
        assert!(is_gone(&text), "this process has no such lock");
        let own = own().unwrap();
        // The start time of another process with the number of a running one.
        assert!(is_gone(&format!("w/{}/1/999999999999/ab", own.world)));
        assert!(!is_gone(&format!("w/{}/1/{}/ab", own.world, start_of(1).unwrap())), "process 1 lives");
        assert!(!is_gone("w/elsewhere.boot.1/1/1/ab"), "another machine");
        assert!(!is_gone("someone-else"), "no token of ours");
    }
}
