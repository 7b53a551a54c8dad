//! The output of a program, and the relevant lines of its stderr.

/// The result of a run of `template`.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// Exit status; `None` if a signal ended the program.
    pub(super) code: Option<i32>,
    /// All of standard output.
    pub(super) stdout: Vec<u8>,
    /// All of standard error.
    pub(super) stderr: Vec<u8>,
}

impl Answer {
    /// The lines of standard error that are not log lines, in byte order, because schema violations are in the random order of a
    /// Go map.
    pub(super) fn message(&self) -> Vec<&[u8]> {
        let mut lines: Vec<&[u8]> = lines(&self.stderr).filter(|l| !is_log(l)).collect();
        lines.sort_unstable();
        lines
    }
}

/// Lines with their line feeds.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|b| *b == b'\n')
}

/// Whether a line of stderr is a log line of a Helm or its libraries, or a warning about the kubeconfig.
fn is_log(line: &[u8]) -> bool {
    let digits = |n: usize| line.len() > n && line[..n].iter().all(u8::is_ascii_digit);
    let source = |line: &[u8]| {
        // `coalesce.go:298: warning: …`
        let Some(end) = memchr::memmem::find(line, b".go:") else { return false };
        let name = line[..end].iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_');
        name && line[end + 4..].first().is_some_and(u8::is_ascii_digit)
    };
    let klog = line.len() > 5
        && matches!(line[0], b'I' | b'W' | b'E' | b'F')
        && line[1..5].iter().all(u8::is_ascii_digit);
    line.starts_with(b"level=")
        || line.starts_with(b"time=")
        || line.starts_with(b"WARNING: Kubernetes configuration file")
        // `2026/11/21 18:00:00 …`
        || digits(4) && line.get(4) == Some(&b'/')
        || klog
        || source(line)
}

#[cfg(test)]
mod tests {
    use super::is_log;

    #[test]
    fn logs_are_told_from_messages() {
        for line in [
            "level=WARN msg=x\n",
            "time=2026-11-21T18:00:00Z level=WARN\n",
            "WARNING: Kubernetes configuration file is group-readable. This is insecure. Location: k\n",
            "2026/11/21 18:00:00 warning: x\n",
            "W1121 18:00:00.000000 1 warnings.go:70] x\n",
            "coalesce.go:298: warning: cannot overwrite table\n",
        ] {
            assert!(is_log(line.as_bytes()), "{line}");
        }
        for line in ["Error: x\n", "Warning: y\n", "\n", "2026\n", "see values.go: no\n", "", "a/b.go:1: x\n"]
        {
            assert!(!is_log(line.as_bytes()), "{line}");
        }
    }
}
