//! Prompts: a name, and a password without echo.
//!
//! Prompts on standard output and reads standard input, as Helm does. Without a terminal it does not prompt for secrets.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::{Failure, ShutdownSignal, block_on, print, tell};

use windlass_base::bounded_read;
use windlass_base::redact::SecretText;

/// The maximal length of an answer, in bytes.
const MAX: u64 = 64 << 10;

/// A password from standard input, without its line end.
pub(super) fn password_from_stdin() -> Result<SecretText, Failure> {
    let read = bounded_read::read_to_end(std::io::stdin().lock(), MAX).map_err(|e| format!("stdin: {e}"))?;
    let text = String::from_utf8(read).map_err(|_| "stdin: the password is not UTF-8 text".to_owned())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).into())
}

/// Prompts for a line with echo.
///
/// # Errors
/// There is no input.
pub(super) fn line(question: &str) -> Result<String, Failure> {
    need_terminal()?;
    ask(question)
}

/// Prompts for a line without echo.
///
/// # Errors
/// There is no terminal, or Ctrl-C.
pub(super) fn secret(question: &str) -> Result<SecretText, Failure> {
    need_terminal()?;
    let question = question.to_owned();
    let answer = block_on(async {
        // The echo must be restored in every case, so register signal handlers first.
        let mut ended = ShutdownSignal::listen()?;
        let _hidden = Hidden::new()?;
        let answer = tokio::task::spawn_blocking(move || ask(&question));
        tokio::select! {
            answer = answer => answer.unwrap_or_else(|e| Err(e.to_string())),
            () = ended.next() => Err("interrupted".to_owned()),
        }
    });
    print(b"\n")?;
    answer?.map(SecretText::new)
}

fn need_terminal() -> Result<(), Failure> {
    if std::io::stdin().is_terminal() {
        return Ok(());
    }
    Err("a password is needed, and standard input is no terminal to ask for it on: give --password-stdin, or \
         --username and --password"
        .to_owned())
}

fn ask(question: &str) -> Result<String, Failure> {
    // Do not lock standard output while waiting for the answer: other tasks print.
    print(question.as_bytes())?;
    let mut text = String::new();
    std::io::stdin().lock().take(MAX).read_line(&mut text).map_err(|e| format!("stdin: {e}"))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// A terminal without echo, until it is dropped.
struct Hidden(Termios);

impl Hidden {
    fn new() -> Result<Self, Failure> {
        let failed = |e: rustix::io::Errno| format!("cannot turn off the echo of the terminal: {e}");
        let before = tcgetattr(std::io::stdin()).map_err(failed)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &hidden).map_err(failed)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0).is_err() {
            tell("the terminal may not show what is typed; `stty echo` makes it do so again");
        }
    }
}
