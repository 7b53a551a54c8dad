//! Progress for people: plain lines on standard error, which the test harness of Rust does not capture.

use std::fmt::Display;
use std::io::{self, Write as _};

pub(crate) fn say(line: impl Display) {
    // A closed standard error is no reason to fail.
    drop(writeln!(io::stderr().lock(), "windlass-testing: {line}"));
}
