//! How the binary is linked: as distributions link what listens on a network.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::process::Command;

/// What `readelf` (binutils, beside every C compiler) prints about the binary.
fn readelf(flags: &[&str]) -> String {
    let output = Command::new("readelf").args(flags).arg(env!("CARGO_BIN_EXE_windlass")).output().unwrap();
    assert!(output.status.success(), "readelf: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_binary_is_position_independent() {
    let header = readelf(&["-hW"]);
    assert!(header.contains("DYN (Position-Independent Executable file)"), "{header}");
    let dynamic = readelf(&["-dW"]);
    assert!(dynamic.lines().any(|line| line.contains("FLAGS_1") && line.contains("PIE")), "{dynamic}");
}

#[test]
fn relocations_are_read_only_once_the_process_runs() {
    let segments = readelf(&["-lW"]);
    assert!(segments.contains("GNU_RELRO"), "{segments}");
    let dynamic = readelf(&["-dW"]);
    assert!(dynamic.lines().any(|line| line.contains("FLAGS_1") && line.contains("NOW")), "{dynamic}");
}

#[test]
fn no_segment_is_writable_and_executable() {
    let segments = readelf(&["-lW"]);
    let flags = |line: &str| line.split_whitespace().filter(|w| matches!(*w, "RWE" | "RW" | "WE")).count();
    assert!(segments.lines().any(|l| l.contains("GNU_STACK") && flags(l) == 1), "{segments}");
    assert!(!segments.lines().any(|l| l.contains("RWE") || l.contains("WE ")), "{segments}");
}

#[test]
fn linked_c_checks_its_stack() {
    let symbols = readelf(&["--dyn-syms", "-W"]);
    assert!(
        symbols.contains("__stack_chk_fail"),
        "no C function checks its stack: is CFLAGS of .cargo/config.toml lost?"
    );
}
