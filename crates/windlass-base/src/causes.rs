//! An error with its causes, in one line, since connection errors name the reason only in the last one; the cause of a type. And
//! errors of the operating system in Go's words.

use std::error::Error;
use std::io;

/// The text of an error and of its sources, each once.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        let more = next.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = next.source();
    }
    text
}

/// The errors of a type among an error and its sources. An [`io::Error`] is followed to what it wraps, which its `source` skips.
pub fn of_type<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e T> {
    std::iter::successors(Some(error), |error| cause(*error)).filter_map(|error| error.downcast_ref())
}

fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// An error of the operating system in Go's words (`syscall.Errno.Error`): without its number, in lower case.
#[must_use]
pub fn of_the_system(error: &io::Error) -> String {
    let text = error.to_string();
    let Some((words, _)) = text.split_once(" (os error ") else { return text };
    let mut letters = words.chars();
    // `RFS specific error` and the like stay as they are.
    match (letters.next(), letters.as_str()) {
        (Some(first), rest) if rest.starts_with(char::is_lowercase) => {
            format!("{}{rest}", first.to_lowercase())
        }
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{of_the_system, of_type};
    use std::io;

    #[test]
    fn a_cause_is_found_in_what_wraps_it() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let wrapped = io::Error::other(io::Error::other(refused));
        let kinds: Vec<_> = of_type(&wrapped).map(io::Error::kind).collect();
        assert_eq!(kinds, [io::ErrorKind::Other, io::ErrorKind::Other, io::ErrorKind::ConnectionRefused]);
        assert_eq!(of_type::<std::fmt::Error>(&wrapped).count(), 0);
        assert_eq!(of_type::<std::fmt::Error>(&io::Error::other(std::fmt::Error)).count(), 1);
    }

    #[test]
    fn the_system_is_told_of_in_gos_words() {
        let table = [
            (std::io::Error::from_raw_os_error(2), "no such file or directory"),
            (std::io::Error::from_raw_os_error(40), "too many levels of symbolic links"),
            (std::io::Error::other("It broke (os error, perhaps)"), "It broke (os error, perhaps)"),
        ];
        for (error, want) in table {
            assert_eq!(of_the_system(&error), want);
        }
    }
}
