//! What the tests of recorded cases share.

use std::fs;
use std::path::{Path, PathBuf};

/// The first lines that differ, with what is before them.
pub(crate) fn first_difference(expected: &str, ours: &str) -> String {
    let same = expected.lines().zip(ours.lines()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| {
        text.lines().skip(same.saturating_sub(4)).take(9).map(|l| format!("  {l}\n")).collect::<String>()
    };
    format!("line {}\n expected\n{} but is\n{}", same + 1, part(expected), part(ours))
}

/// The folders of cases: those that have `file`.
pub(crate) fn cases(root: &Path, file: &str) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    dirs.retain(|dir| dir.join(file).exists());
    dirs.sort();
    dirs
}
