//! An error with its causes, in one line, since connection errors name the reason only in the last one. And errors of
//! the operating system in Go's words.

/// The text of an error and of its sources, each once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
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

/// An error of the operating system in Go's words (`syscall.Errno.Error`): without its number, in lower case.
#[must_use]
pub fn of_the_system(error: &std::io::Error) -> String {
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
    use super::of_the_system;

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
