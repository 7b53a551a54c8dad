//! Links the binary to a fixed address, and what runs of it side by side, where that is possible.
//!
//! A binary that can lie anywhere has its 23,000 pointers to functions and tables rewritten at each start, which copies a hundred
//! pages: a third of the time in which the process could start, and of what `template` takes for a small chart. Stack, heap and
//! libraries stay where chance puts them, as with Helm's own binary, which is linked so too.
//!
//! What unwinds a panic is linked in for the same reason: to load the library that has it took a tenth of a millisecond.
//!
//! Of 36,000 functions 5,000 run in all that a release or an operator does. Spread over the whole binary they made two thirds of the
//! memory of an install, since a page comes with its neighbours; `layout.ld` puts them together.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=layout.ld");
    let told = |name: &str| env::var(name).unwrap_or_default();
    if told("CARGO_CFG_TARGET_OS") == "linux" && told("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        // Found before the shared libgcc, which then is not needed: one library less to load at each start.
        println!("cargo:rustc-link-lib=dylib:+verbatim=libgcc_eh.a");
        // Functions of other builds have other names.
        if told("PROFILE") == "release" {
            println!("cargo:rustc-link-arg-bins=-Wl,-T,{}/layout.ld", told("CARGO_MANIFEST_DIR"));
        }
    }
}
