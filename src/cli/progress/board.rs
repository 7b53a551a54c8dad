//! The terminal block with the objects of a wait. Pure: converts steps to terminal text.

use std::collections::BTreeMap;

use windlass_engine::OperationProgress;

/// Maximal number of printed objects; further ones are counted.
const MOST: usize = 10;

/// The state of a wait.
#[derive(Default)]
pub(super) struct Board {
    /// The reason why each object is not ready, and its diagnosis.
    waiting: BTreeMap<String, (String, Vec<String>)>,
    ready: usize,
    /// The number of lines on the terminal that the next text replaces.
    drawn: usize,
}

impl Board {
    /// Processes a step. Returns the text for a terminal with this many columns and rows.
    pub(super) fn step(&mut self, step: &OperationProgress<'_>, width: usize, height: usize) -> String {
        let mut said = String::new();
        match step {
            OperationProgress::HookLog { text, .. } => said = format!("{}\n", text.trim_end_matches('\n')),
            OperationProgress::Warning(text) => said = format!("level=WARN msg={text:?}\n"),
            OperationProgress::Waiting { object, reason } => {
                let entry = self.waiting.entry(object.to_string()).or_default();
                (*reason).clone_into(&mut entry.0);
            }
            OperationProgress::Diagnosis { object, lines } => {
                self.waiting.entry(object.to_string()).or_default().1 = lines.to_vec();
            }
            OperationProgress::Ready(object) => {
                self.waiting.remove(&object.to_string());
                self.ready += 1;
            }
            // A new phase starts: the old lines are kept.
            OperationProgress::Applied { .. }
            | OperationProgress::Deleted(_)
            | OperationProgress::Hook { .. } => {
                *self = Self::default();
                if let OperationProgress::Hook { event, kind, name } = step {
                    said = format!("{}\n", cut(&format!("{event} hook: {kind} {name}"), width));
                }
                return said;
            }
        }
        // Lines that scrolled off the screen cannot be replaced, and the cursor needs its own row.
        let lines = self.lines(height.saturating_sub(1));
        let over = if self.drawn > 0 { format!("\x1b[{}A\x1b[J", self.drawn) } else { String::new() };
        self.drawn = lines.len();
        let lines: String = lines.iter().map(|line| format!("{}\n", cut(line, width))).collect();
        format!("{over}{said}{lines}")
    }

    /// At most `rows` lines, but at least the count and one object. Objects take precedence over diagnoses.
    fn lines(&self, rows: usize) -> Vec<String> {
        if self.waiting.is_empty() && self.ready == 0 {
            return Vec::new();
        }
        if self.waiting.is_empty() {
            return vec![format!("{} ready", self.ready)];
        }
        let all = self.waiting.len() + self.ready;
        let mut out = vec![format!("waiting for {} of {all}:", self.waiting.len())];
        let mut shown = self.waiting.len().min(MOST);
        if shown < self.waiting.len() || shown + 1 > rows {
            shown = shown.min(rows.saturating_sub(2)).max(1);
        }
        let more = self.waiting.len() - shown;
        let mut spare = rows.saturating_sub(1 + shown + usize::from(more > 0));
        for (object, (reason, lines)) in self.waiting.iter().take(shown) {
            out.push(format!("  {object}: {reason}"));
            let lines = &lines[..lines.len().min(spare)];
            spare -= lines.len();
            out.extend(lines.iter().map(|line| format!("      {line}")));
        }
        if more > 0 {
            out.push(format!("  and {more} more"));
        }
        out
    }
}

/// A line that fits into one row, without control characters, because the text comes from the cluster.
fn cut(line: &str, width: usize) -> String {
    let mut out: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width).collect();
    if line.chars().count() > width {
        out.pop();
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::{Gvk, ObjectRef};
    use windlass_engine::HookEvent;

    #[test]
    fn one_block_is_drawn_over() {
        let object = |name: &str| ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("ns"), name);
        let (a, b) = (object("a"), object("b"));
        let mut board = Board::default();
        let first =
            board.step(&OperationProgress::Waiting { object: &a, reason: "0 of 1 available" }, 80, 24);
        assert_eq!(first, format!("waiting for 1 of 1:\n  {a}: 0 of 1 available\n"));
        board.step(&OperationProgress::Waiting { object: &b, reason: "new" }, 80, 24);
        let lines = ["Pod x: main waits:\x1b[2J ErrImagePull".to_owned()];
        let told = board.step(&OperationProgress::Diagnosis { object: &a, lines: &lines }, 80, 24);
        assert!(told.starts_with("\x1b[3A\x1b[Jwaiting for 2 of 2:\n"), "{told:?}");
        assert!(told.contains("\n      Pod x: main waits: [2J ErrImagePull\n"), "{told:?}");
        let log = OperationProgress::HookLog { pod: "p", container: "c", text: "hello\n" };
        let told = board.step(&log, 24, 24);
        assert!(told.starts_with("\x1b[4A\x1b[Jhello\nwaiting for 2 of 2:\n"), "{told:?}");
        assert!(told.lines().skip(2).all(|l| l.chars().count() <= 24) && told.contains('…'), "{told:?}");
        assert_eq!(
            board.step(&OperationProgress::Ready(&a), 80, 24),
            format!("\x1b[4A\x1b[Jwaiting for 1 of 2:\n  {b}: new\n")
        );
        assert_eq!(board.step(&OperationProgress::Ready(&b), 80, 24), "\x1b[2A\x1b[J2 ready\n");
        let warning = OperationProgress::Warning("cannot \"watch\"");
        assert_eq!(
            board.step(&warning, 80, 24),
            "\x1b[1A\x1b[Jlevel=WARN msg=\"cannot \\\"watch\\\"\"\n2 ready\n"
        );
        let next = OperationProgress::Applied { object: &a, created: true, changed: false };
        assert_eq!(board.step(&next, 80, 24), "");
        assert_eq!(board.step(&OperationProgress::Warning("x"), 80, 24), "level=WARN msg=\"x\"\n");
        assert!(
            !board.step(&OperationProgress::Waiting { object: &a, reason: "new" }, 80, 24).contains('\x1b')
        );
        let hook = OperationProgress::Hook { event: HookEvent::PreUpgrade, kind: "Job", name: "migrate" };
        assert_eq!(board.step(&hook, 80, 24), "pre-upgrade hook: Job migrate\n");
        assert!(
            !board.step(&OperationProgress::Waiting { object: &b, reason: "new" }, 80, 24).contains('\x1b')
        );
    }

    #[test]
    fn a_block_fits_the_screen() {
        let mut board = Board::default();
        let lines: Vec<String> = (0..5).map(|n| format!("line {n}")).collect();
        for n in 0..20 {
            let object = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("ns"), &format!("d{n:02}"));
            board.step(&OperationProgress::Waiting { object: &object, reason: "new" }, 80, 24);
            board.step(&OperationProgress::Diagnosis { object: &object, lines: &lines }, 80, 24);
        }
        let rows = |height: usize| board.lines(height);
        assert_eq!(rows(24).len(), 24, "{:#?}", rows(24));
        assert_eq!(rows(24).iter().filter(|line| line.contains("Deployment")).count(), MOST);
        let few = ["waiting for 20 of 20:", "  Deployment ns/d00: new", "  and 19 more"];
        assert_eq!(rows(3), few);
        assert_eq!(rows(0), few);
        assert_eq!(rows(100).len(), 2 + MOST * 6);
    }
}
