//! The `windlass` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass::cli::main()
}
