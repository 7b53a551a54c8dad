//! Regular expressions of `matches`: Go's dialect, as cel-go has it, and bounded in size.
//!
//! Owns the bound. What a search takes, `evaluation_cost` knows.

use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, ExecutionError};
use chart_compat::go::regexp::{self, Regexp};

/// The most bytes of a pattern's automaton.
const MAX_SIZE: usize = 1 << 20;
/// The most bytes of a compiled pattern with all that searches use.
pub(super) const MAX_MEMORY: u64 = 4 * MAX_SIZE as u64;

/// Adds the function `matches` to those of a context.
///
/// # Errors
/// There is one already.
pub fn add_matches(context: &mut Context<'_, '_>) -> Result<(), cel::DeclarationError> {
    context.add_function("matches", |This(text): This<Arc<String>>, pattern: Arc<String>| {
        let compiled = compile(&pattern).map_err(|why| ExecutionError::function_error("matches", why))?;
        Ok::<bool, ExecutionError>(compiled.is_match(text.as_bytes()))
    })
}

/// How many bytes a pattern takes when it is compiled.
///
/// # Errors
/// It is not valid, or too large.
pub(super) fn memory(pattern: &str) -> Result<u64, String> {
    compile(pattern).map(|compiled| compiled.memory() as u64)
}

fn compile(pattern: &str) -> Result<Regexp, String> {
    regexp::compile_within(pattern.as_bytes(), MAX_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_gos_and_bounded() {
        for (pattern, memory_at_most) in [("^x$", 10_000), (r"\w{100}", 100_000), (r"\pL{20}", MAX_MEMORY)] {
            assert!(
                memory(pattern).is_ok_and(|found| found <= memory_at_most),
                "{pattern}: {:?}",
                memory(pattern)
            );
        }
        for (pattern, why) in [
            ("a(", "error parsing regexp: missing closing ): `a(`"),
            (r"(\pL{100}){10}", r"error parsing regexp: expression too large: `(\pL{100}){10}`"),
        ] {
            assert_eq!(memory(pattern), Err(why.to_owned()), "{pattern}");
        }
    }
}
