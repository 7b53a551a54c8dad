//! The `windlass` binary.

use std::process::ExitCode;

/// Chosen by the memory of operators: see BENCHMARKS.md.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    windlass::cli::main()
}
