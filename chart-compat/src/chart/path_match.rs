//! Go's `filepath.Match`: shell patterns within one path segment.

/// Whether `pattern` matches the whole `name`; `*` and `?` do not match `/`.
///
/// # Errors
/// `syntax error in pattern`
pub fn matches(pattern: &str, name: &str) -> Result<bool, String> {
    let p: Vec<char> = pattern.chars().collect();
    let n: Vec<char> = name.chars().collect();
    check(&p)?;
    Ok(run(&p, &n))
}

fn bad() -> String {
    "syntax error in pattern".to_owned()
}

/// Parses one character of a class, which may be escaped.
fn class_char(p: &[char]) -> Option<(char, usize)> {
    match p {
        ['\\', c, ..] => Some((*c, 2)),
        ['-' | ']', ..] | [] | ['\\'] => None,
        [c, ..] => Some((*c, 1)),
    }
}

/// The ranges of a class, whether it is negated, and its length.
type Class = (Vec<(char, char)>, bool, usize);

/// Parses a class after its `[`.
fn class(p: &[char]) -> Option<Class> {
    let negated = p.first() == Some(&'^');
    let mut at = usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        if p.get(at) == Some(&']') && !ranges.is_empty() {
            return Some((ranges, negated, at + 1));
        }
        let (lo, n) = class_char(p.get(at..)?)?;
        at += n;
        let mut hi = lo;
        if p.get(at) == Some(&'-') {
            let (c, n) = class_char(p.get(at + 1..)?)?;
            hi = c;
            at += 1 + n;
        }
        ranges.push((lo, hi));
    }
}

fn check(p: &[char]) -> Result<(), String> {
    let mut at = 0;
    while at < p.len() {
        at += match p[at] {
            '[' => 1 + class(&p[at + 1..]).ok_or_else(bad)?.2,
            '\\' if at + 1 >= p.len() => return Err(bad()),
            '\\' => 2,
            _ => 1,
        };
    }
    Ok(())
}

/// Matches the first element of the pattern with `c`; returns whether it matches, and its length.
fn element(p: &[char], c: char) -> (bool, usize) {
    match p[0] {
        '?' => (c != '/', 1),
        '[' => match class(&p[1..]) {
            Some((ranges, negated, n)) => {
                (ranges.iter().any(|(lo, hi)| *lo <= c && c <= *hi) != negated, n + 1)
            }
            None => (false, 1),
        },
        '\\' => (p.get(1) == Some(&c), 2),
        other => (other == c, 1),
    }
}

fn run(p: &[char], n: &[char]) -> bool {
    let (mut pi, mut ni) = (0, 0);
    // Where to backtrack to if the text after the last star does not match: one character further.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pi < p.len() && p[pi] == '*' {
            star = Some((pi + 1, ni));
            pi += 1;
            continue;
        }
        if ni == n.len() && pi == p.len() {
            return true;
        }
        if ni < n.len() && pi < p.len() {
            let (ok, used) = element(&p[pi..], n[ni]);
            if ok {
                pi += used;
                ni += 1;
                continue;
            }
        }
        match star {
            Some((after, from)) if from < n.len() && n[from] != '/' => {
                star = Some((after, from + 1));
                pi = after;
                ni = from + 1;
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_go_does() {
        let table = [
            ("*.txt", "a.txt", true),
            ("*.txt", "a/b.txt", false),
            ("a*c", "abbc", true),
            ("a*c*e", "abcde", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("a?c", "a/c", false),
            ("\\*", "*", true),
            ("templates/.?*", "templates/.x", true),
            ("templates/.?*", "templates/.", false),
            ("", "", true),
            ("*", "", true),
        ];
        for (pattern, name, want) in table {
            assert_eq!(matches(pattern, name), Ok(want), "{pattern} {name}");
        }
        for bad in ["[", "[a", "a\\", "[]a]"] {
            assert!(matches(bad, "a").is_err(), "{bad}");
        }
    }
}
