//! Character classes of Go's dialect: Perl and POSIX classes are ASCII, `\p` supports categories and scripts.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

fn of_ranges(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(a, b)| ClassUnicodeRange::new(*a, *b)))
}

/// `\d`, `\s` or `\w`, by its lower-case letter.
pub(super) fn perl(letter: char) -> Option<ClassUnicode> {
    Some(match letter {
        'd' => of_ranges(&[('0', '9')]),
        's' => of_ranges(&[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')]),
        'w' => of_ranges(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]),
        _ => return None,
    })
}

/// Character classes such as `[:alpha:]`, by name.
pub(super) fn posix(name: &str) -> Option<ClassUnicode> {
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(of_ranges(ranges))
}

/// `\p{name}`: a general category or a script.
pub(super) fn unicode(name: &str) -> Option<ClassUnicode> {
    if name == "Any" {
        return Some(of_ranges(&[('\0', char::MAX)]));
    }
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b' '))
    {
        return None;
    }
    // Go supports no other properties, and no `name=value`.
    let pattern = [format!(r"\p{{gc={name}}}"), format!(r"\p{{sc={name}}}")];
    pattern.iter().find_map(|p| match regex_syntax::parse(p).map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => Some(class),
        Ok(HirKind::Literal(literal)) => {
            let c = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(of_ranges(&[(c, c)]))
        }
        _ => None,
    })
}
