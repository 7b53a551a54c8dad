//! Suggestions for misspelt names.

/// The name most similar to `wanted`, if any is similar: equal but for letter case and punctuation, a few letters changed, or one
/// a prefix of the other.
#[must_use]
pub fn nearest<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let flat = flatten(wanted);
    names
        .into_iter()
        .filter(|name| *name != wanted)
        .filter_map(|name| distance(&flat, &flatten(name)).map(|d| (d, name)))
        .min()
        .map(|(_, name)| name)
}

fn flatten(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(100).collect()
}

/// The edit distance of two names; `None` if they have too little in common.
fn distance(a: &[char], b: &[char]) -> Option<usize> {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    if short.len() >= 3 && long.starts_with(short) {
        return Some(1);
    }
    // Damerau's distance: insertions, deletions, substitutions, and transpositions of neighbours.
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    let found = rows[a.len()][b.len()];
    (found <= long.len() / 3).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_found() {
        let names = ["repository", "tag", "pullPolicy", "replicaCount"];
        let table = [
            ("repo", Some("repository")),
            ("pullpolicy", Some("pullPolicy")),
            ("pull_policy", Some("pullPolicy")),
            ("replicasCount", Some("replicaCount")),
            ("tga", Some("tag")),
            ("digest", None),
            ("x", None),
        ];
        for (wanted, want) in table {
            assert_eq!(nearest(wanted, names), want, "{wanted}");
        }
    }
}
