//! Compares two outputs, and finds the lines that `helm` itself prints differently in each run.

use super::answer::{Answer, lines};

/// The result of one comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The same bytes.
    Equal,
    /// Both fail with the same message and the same output before.
    BothFail,
    /// Equal except for this many lines, which also differ between two runs of `helm`.
    EqualButFor(usize),
    /// Different: a short reason.
    Differs(String),
    /// Not compared: the reason.
    NotCompared(String),
}

/// Two texts for a diff: helm's and ours.
pub(super) type Texts = (Vec<u8>, Vec<u8>);

/// Whether status, standard output and message are equal.
pub(super) fn alike(helm: &Answer, ours: &Answer) -> bool {
    helm.code == ours.code && helm.stdout == ours.stdout && helm.message() == ours.message()
}

/// The verdict on two different outputs; `again` is the output of a second run of `helm`.
pub(super) fn unlike(helm: &Answer, ours: &Answer, again: &Answer) -> (Verdict, Option<Texts>) {
    if helm.code != ours.code {
        let what = match (helm.code, ours.code) {
            (Some(0), _) => "windlass fails, helm does not".to_owned(),
            (_, Some(0)) => "helm fails, windlass does not".to_owned(),
            (h, o) => format!("exit status {} of helm, {} of windlass", code(h), code(o)),
        };
        return (Verdict::Differs(what), Some((helm.message().concat(), ours.message().concat())));
    }
    let side = |a: &Answer| lines(&a.stdout).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (first, mine, second) = (side(helm), side(ours), side(again));
    let said = |a: &Answer| a.message().into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
    let outs = unmask(&first, &mine, &second);
    let messages = unmask(&said(helm), &said(ours), &said(again));
    if outs.lines != first {
        let n = differing(&first, &outs.lines);
        let own = if first.len() == second.len() {
            ""
        } else {
            "; helm's own two runs differ in their number of lines, so that none was set apart"
        };
        let plural = if n == 1 { "" } else { "s" };
        let what = format!("{n} line{plural}{own}");
        return (Verdict::Differs(what), Some((first.concat(), outs.lines.concat())));
    }
    let told = helm.message().concat();
    if messages.lines.concat() != told {
        return (Verdict::Differs("the message".to_owned()), Some((told, messages.lines.concat())));
    }
    (Verdict::EqualButFor(outs.masked + messages.masked), None)
}

/// Compares a record's manifest with `helm`'s render of its chart and values.
pub(super) fn beside_record(recorded: &[u8], helm: &Answer) -> String {
    if helm.code != Some(0) {
        return "cannot be rendered again".to_owned();
    }
    // Helm 3 and 4 differ in white space at the ends of documents, and a record can be of either version.
    let text = |b: &[u8]| {
        let kept = lines(b).map(<[u8]>::trim_ascii_end).filter(|l| !l.is_empty());
        kept.map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    match differing(&text(recorded), &text(&helm.stdout)) {
        0 => "as recorded".to_owned(),
        1 => "1 line other than recorded".to_owned(),
        n => format!("{n} lines other than recorded"),
    }
}

fn code(code: Option<i32>) -> String {
    code.map_or_else(|| "signal".to_owned(), |c| c.to_string())
}

struct Unmasked {
    /// Our lines, with helm's in place of those that cannot be compared.
    lines: Vec<Vec<u8>>,
    masked: usize,
}

/// Replaces our lines with helm's where helm's two runs differ. The key before the value must be equal.
fn unmask(helm: &[Vec<u8>], ours: &[Vec<u8>], again: &[Vec<u8>]) -> Unmasked {
    let mut out = Unmasked { lines: ours.to_vec(), masked: 0 };
    if helm.len() != again.len() || helm.len() != ours.len() {
        return out;
    }
    for (i, line) in out.lines.iter_mut().enumerate() {
        if helm[i] != again[i] && (key(&helm[i]) != key(&again[i]) || key(&helm[i]) == key(line)) {
            line.clone_from(&helm[i]);
            out.masked += 1;
        }
    }
    out
}

/// The text up to the first `: `, or the indentation of a line without one.
fn key(line: &[u8]) -> &[u8] {
    let end = memchr::memmem::find(line, b": ")
        .unwrap_or_else(|| line.iter().take_while(|c| c.is_ascii_whitespace() && **c != b'\n').count());
    &line[..end]
}

/// The number of lines on one side only, for the side with more.
fn differing(a: &[Vec<u8>], b: &[Vec<u8>]) -> usize {
    let (mut removed, mut added) = (0, 0);
    for op in super::diff::operations(a, b) {
        if op.tag() != similar::DiffTag::Equal {
            removed += op.old_range().len();
            added += op.new_range().len();
        }
    }
    removed.max(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: i32, stdout: &str, stderr: &str) -> Answer {
        Answer { code: Some(code), stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn status_output_and_message_are_compared_and_logs_are_not() {
        let helm = answer(0, "a: 1\n", "level=WARN msg=x\n");
        assert!(alike(&helm, &answer(0, "a: 1\n", "")));
        assert!(!alike(&helm, &answer(0, "a: 2\n", "")));
        assert!(!alike(&helm, &answer(1, "a: 1\n", "")));
        assert!(!alike(&helm, &answer(0, "a: 1\n", "Error: x\n")));
        // The order of a Go map is random.
        assert!(alike(&answer(1, "", "Error: s\n- a\n- b\n"), &answer(1, "", "Error: s\n- b\n- a\n")));
    }

    #[test]
    fn only_lines_that_helm_never_repeats_are_set_apart() {
        let first = answer(0, "a: 1\n  pass: x1\n  at:\n    r1\n", "");
        let again = answer(0, "a: 1\n  pass: x2\n  at:\n    r2\n", "");
        let verdict = |ours: &str| unlike(&first, &answer(0, ours, ""), &again).0;
        assert_eq!(verdict("a: 1\n  pass: x3\n  at:\n    r3\n"), Verdict::EqualButFor(2));
        let differs = [
            ("a: 2\n  pass: x3\n  at:\n    r3\n", "1 line"),
            // Another key, another depth, another number of lines.
            ("a: 1\n  word: x3\n  at:\n    r3\n", "1 line"),
            ("a: 1\n  pass: x3\n  at:\n      r3\n", "1 line"),
            ("a: 1\n  pass: x3\n  at:\n    r3\nb: 1\n", "3 lines"),
        ];
        for (ours, what) in differs {
            assert_eq!(verdict(ours), Verdict::Differs(what.to_owned()), "{ours}");
        }
    }

    #[test]
    fn failures_are_told_apart() {
        let (fails, works) = (answer(1, "", "Error: no\n"), answer(0, "a\n", ""));
        let what = |helm: &Answer, ours: &Answer| match unlike(helm, ours, helm).0 {
            Verdict::Differs(what) => what,
            other => format!("{other:?}"),
        };
        assert_eq!(what(&fails, &works), "helm fails, windlass does not");
        assert_eq!(what(&works, &fails), "windlass fails, helm does not");
        assert_eq!(what(&fails, &answer(1, "", "Error: nope\n")), "the message");
        let longer = answer(0, "a\nb\n", "");
        let (verdict, texts) = unlike(&works, &answer(0, "c\n", ""), &longer);
        assert!(matches!(verdict, Verdict::Differs(w) if w.starts_with("1 line; helm's own two runs")));
        assert_eq!(texts, Some((b"a\n".to_vec(), b"c\n".to_vec())));
    }

    #[test]
    fn a_record_is_compared_but_for_blank_lines() {
        let helm = answer(0, "---\na: 1\n\n---\nb: 2\n", "");
        assert_eq!(beside_record(b"---\na: 1\n---\nb: 2 \n", &helm), "as recorded");
        assert_eq!(beside_record(b"---\na: 2\n---\nb: 2\n", &helm), "1 line other than recorded");
        assert_eq!(beside_record(b"", &answer(1, "", "Error: x\n")), "cannot be rendered again");
    }
}
