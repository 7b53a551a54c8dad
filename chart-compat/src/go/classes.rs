//! Go's `unicode` classes that only a few functions need, from the tables of the regular expression parser.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

struct Ranges(Vec<(char, char)>);

impl Ranges {
    /// The class of a general category, e.g. `Lu`.
    fn of(category: &str) -> Self {
        let pattern = format!(r"\p{{{category}}}");
        let ranges = match regex_syntax::parse(&pattern).map(regex_syntax::hir::Hir::into_kind) {
            Ok(HirKind::Class(Class::Unicode(class))) => class.iter().map(|r| (r.start(), r.end())).collect(),
            _ => Vec::new(),
        };
        Self(ranges)
    }

    fn has(&self, c: char) -> bool {
        let after = self.0.partition_point(|r| r.1 < c);
        self.0.get(after).is_some_and(|r| r.0 <= c)
    }
}

macro_rules! class {
    ($(#[$doc:meta])* $name:ident, $category:literal, $ascii:expr) => {
        $(#[$doc])*
        #[must_use]
        pub(crate) fn $name(c: char) -> bool {
            static RANGES: LazyLock<Ranges> = LazyLock::new(|| Ranges::of($category));
            let ascii: fn(&char) -> bool = $ascii;
            if c.is_ascii() { ascii(&c) } else { RANGES.has(c) }
        }
    };
}

class!(
    /// `unicode.IsUpper`
    is_upper, "Lu", char::is_ascii_uppercase
);
class!(
    /// `unicode.IsLower`
    is_lower, "Ll", char::is_ascii_lowercase
);
class!(
    /// `unicode.IsTitle`
    is_title, "Lt", |_| false
);
class!(
    /// `unicode.IsNumber`
    is_number, "N", char::is_ascii_digit
);
class!(
    /// `unicode.IsPunct`
    is_punct, "P", |c| c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
);
