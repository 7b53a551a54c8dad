//! Links the binary to a fixed address where that is possible.
//!
//! A binary that can lie anywhere has its 23,000 pointers to functions and tables rewritten at each start, which copies a hundred
//! pages: a third of the time in which the process could start, and of what `template` takes for a small chart. Stack, heap and
//! libraries stay where chance puts them, as with Helm's own binary, which is linked so too.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let told = |name: &str| env::var(name).unwrap_or_default();
    if told("CARGO_CFG_TARGET_OS") == "linux" && told("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
