//! Lines of a schema's verdict in one order, whatever the order of the maps that they speak of: as `inOrder` of the Go side.

/// A line and those that stand deeper below it.
struct Block<'t> {
    lines: &'t [&'t str],
    /// What siblings share whose order is that of a map, and what they are told apart by.
    group: String,
    key: String,
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

impl<'t> Block<'t> {
    fn of(lines: &'t [&'t str]) -> Self {
        let mut block = Self { lines, group: String::new(), key: String::new() };
        if let Some((at, text)) = lines[0].trim_start_matches([' ', '-']).split_once("': ") {
            if let Some(name) = text.strip_prefix("invalid propertyName ") {
                (block.group, block.key) = (format!("{at} names"), name.to_owned());
            } else if let Some(slash) = at.rfind('/') {
                (block.group, block.key) = (at[..slash].to_owned(), at[slash..].to_owned());
            }
        }
        block
    }

    /// Names as texts, indexes of lists as numbers.
    fn rank(&self) -> (usize, &str) {
        let digits = self.key.bytes().all(|b| b == b'/' || b.is_ascii_digit());
        (if digits { self.key.len() } else { 0 }, &self.key)
    }
}

/// Siblings that stand together and are about the entries of one map, or about their names, in the order of the keys.
pub(crate) fn in_order(lines: &[&str]) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let end = 1 + rest[1..].iter().take_while(|l| indent(l) > indent(first)).count();
        blocks.push(Block::of(&rest[..end]));
        rest = &rest[end..];
    }
    let mut out = Vec::new();
    for run in blocks.chunk_by_mut(|a, b| a.group == b.group) {
        let mixed = !run.iter().all(|b| b.rank().0 > 0);
        run.sort_by(|a, b| if mixed { a.key.cmp(&b.key) } else { a.rank().cmp(&b.rank()) });
        for block in run {
            out.push(block.lines[0].to_owned());
            out.extend(in_order(&block.lines[1..]));
        }
    }
    out
}
