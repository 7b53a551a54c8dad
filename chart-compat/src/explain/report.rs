//! A report: a message, source lines with a caret under the position, and notes.
//!
//! Owns the layout. Removes control characters of a terminal from the text of files.

use std::fmt;

/// The maximal number of columns shown of a line.
const MAX_WIDTH: usize = 140;

/// A place in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The text's name.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// First column in characters, from 0, and the number of columns; `None` for the whole line.
    pub columns: Option<(usize, usize)>,
    /// The text beside the caret.
    pub label: String,
    /// The lines shown, with their numbers.
    pub lines: Vec<(usize, String)>,
}

/// An explanation of an error, shown beside Helm's own text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The error.
    pub message: String,
    /// The position of the error, then its callers.
    pub places: Vec<Place>,
    /// Further lines, each with its prefix, e.g. `help`.
    pub notes: Vec<(&'static str, String)>,
}

impl Place {
    /// A line of a text with its neighbours.
    #[must_use]
    pub fn new(file: &str, text: &[u8], line: usize, around: usize) -> Self {
        let first = line.saturating_sub(around).max(1);
        let all = (1..).zip(text.split(|c| *c == b'\n'));
        let shown = all.skip(first - 1).take_while(|(number, _)| *number <= line + around);
        let lines: Vec<_> =
            shown.map(|(number, l)| (number, harmless(&String::from_utf8_lossy(l)))).collect();
        // The empty rest after the last line feed is not a line.
        let end = lines
            .iter()
            .rposition(|(number, l)| !l.trim().is_empty() || *number == line)
            .map_or(0, |n| n + 1);
        Self { file: file.to_owned(), line, lines: lines.into_iter().take(end).collect(), ..Self::default() }
    }

    fn write(&self, f: &mut impl fmt::Write, width: usize) -> fmt::Result {
        let column = self.columns.map_or(String::new(), |(start, _)| format!(":{}", start + 1));
        writeln!(f, "{:width$}--> {}:{}{column}", "", self.file, self.line)?;
        if self.lines.is_empty() {
            return Ok(());
        }
        writeln!(f, "{:width$} |", "")?;
        // A long line starts so that the caret is visible.
        let skip = self.columns.map_or(0, |(start, _)| start.saturating_sub(MAX_WIDTH / 2));
        for (number, line) in &self.lines {
            let skip = if *number == self.line { skip } else { 0 };
            let cut: String = line.chars().skip(skip).take(MAX_WIDTH).collect();
            let before = if skip > 0 { "…" } else { "" };
            writeln!(f, "{number:>width$} | {before}{}", cut.trim_end())?;
            if *number == self.line {
                let indent = line.chars().take_while(|c| c.is_whitespace()).count();
                let whole = line.trim_end().chars().count().saturating_sub(indent);
                let (start, length) = self.columns.unwrap_or((indent, whole));
                let start = start - skip.min(start) + before.chars().count();
                let length = length.clamp(1, MAX_WIDTH);
                let caret = format!("{:start$}{} {}", "", "^".repeat(length), self.label);
                writeln!(f, "{:width$} | {}", "", caret.trim_end())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", harmless(&self.message))?;
        let numbers = self.places.iter().flat_map(|p| p.lines.iter().map(|(n, _)| *n));
        let width = numbers.max().unwrap_or(0).to_string().len();
        for (i, place) in self.places.iter().enumerate() {
            if i == 1 {
                self.write_notes(f, width)?;
            }
            if i > 0 {
                writeln!(f, "{:width$} called from", "")?;
            }
            place.write(f, width)?;
        }
        if self.places.len() < 2 {
            self.write_notes(f, width)?;
        }
        Ok(())
    }
}

impl Report {
    fn write_notes(&self, f: &mut fmt::Formatter<'_>, width: usize) -> fmt::Result {
        for (word, text) in &self.notes {
            writeln!(f, "{:width$} = {word}: {}", "", harmless(text))?;
        }
        Ok(())
    }
}

/// Removes from a text the control characters that a terminal would execute.
fn harmless(text: &str) -> String {
    let safe = |c: char| {
        if c == '\t' {
            ' '
        } else if c.is_control() && c != '\n' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.trim_end_matches('\r').chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::{Place, Report};

    #[test]
    fn a_report_shows_lines_and_caret() {
        let text = b"one\n  two: {{ .x }}\nthree\x1b[31m\nfour\n";
        let mut place = Place::new("a.yaml", text, 2, 1);
        place.columns = Some((10, 2));
        place.label = "no x".to_owned();
        let caller = Place::new("b.yaml", b"\t{{ include }}\n", 1, 0);
        let notes = vec![("help", "use y".to_owned())];
        let report = Report { message: "bad".to_owned(), places: vec![place, caller], notes };
        let want = "error: bad\n --> a.yaml:2:11\n  |\n1 | one\n2 |   two: {{ .x }}\n  |           ^^ no x\n\
                    3 | three\u{fffd}[31m\n  = help: use y\n  called from\n --> b.yaml:1\n  |\n1 |  {{ include }}\n  |  ^^^^^^^^^^^^^\n";
        assert_eq!(report.to_string(), want);
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let text = format!("{}HERE{}", "x".repeat(500), "y".repeat(500));
        let mut place = Place::new("a", text.as_bytes(), 1, 0);
        place.columns = Some((500, 4));
        let shown = Report { message: String::new(), places: vec![place], notes: Vec::new() }.to_string();
        let lines: Vec<Vec<char>> = shown.lines().map(|l| l.chars().collect()).collect();
        let caret = lines[4].iter().position(|c| *c == '^').unwrap();
        assert_eq!(lines[3][caret..caret + 4].iter().collect::<String>(), "HERE");
    }
}
