//! What `windlass doctor` and `operator --observe` print about custom resources whose objects are releases.
//!
//! Owns the table and the exit status. What is found is `preflight`'s.

use std::collections::BTreeSet;
use std::process::ExitCode;

use super::plan::CHANGES;
use super::{Failure, doctor, hints};
use crate::preflight::{ObjectDiagnosis, PlannedRelease, ReleaseFinding, Weight};

/// What a pass over one object would do, as it is printed.
pub(super) enum Pass {
    /// Nothing, for this reason; without one nothing is to be said.
    Idle(&'static str, Option<String>),
    Unchanged,
    Change {
        /// One line about it.
        head: String,
        /// All of it.
        whole: String,
        new_revision: bool,
    },
    Failed(String),
}

/// One object.
pub(super) struct ObjectPass {
    pub(super) object: String,
    pub(super) pass: Pass,
}

/// All that is known of the objects of a kind.
pub(super) struct Findings<'f> {
    /// The kind in the plural, for the last line.
    pub(super) kinds: &'static str,
    /// What an idle object is, for the last line.
    pub(super) idle: &'static str,
    /// Lines about the tool before.
    pub(super) first: Vec<String>,
    pub(super) diagnoses: &'f [ObjectDiagnosis],
    pub(super) objects: Vec<ObjectPass>,
}

impl ObjectPass {
    /// `kind`: the word before the object's name.
    pub(super) fn of(planned: &PlannedRelease, kind: &str, painted: bool) -> Self {
        let PlannedRelease { object, finding } = planned;
        let pass = match finding {
            ReleaseFinding::NotManaged(why) => Pass::Idle("not managed", Some(why.clone())),
            ReleaseFinding::Unchanged => Pass::Unchanged,
            ReleaseFinding::Failed(why) => Pass::Failed(why.clone()),
            ReleaseFinding::Change(preview) => {
                let preview = hints::with_flags(preview, hints::OPERATOR_FLAGS);
                let first = preview.text(false, false);
                let head = format!("{object}: {}", first.lines().next().unwrap_or_default());
                let mut whole = format!("{}: would change:\n", named(kind, object));
                preview.text(false, painted).lines().for_each(|line| whole.push_str(&format!("  {line}\n")));
                Pass::Change { head, whole, new_revision: planned.has_new_revision() }
            }
        };
        Self { object: object.clone(), pass }
    }
}

fn named(kind: &str, object: &str) -> String {
    if kind.is_empty() { object.to_owned() } else { format!("{kind} {object}") }
}

impl Findings<'_> {
    fn refused(&self) -> BTreeSet<&str> {
        self.diagnoses.iter().filter(|d| d.weight == Weight::Breaks).map(|d| d.object.as_str()).collect()
    }

    /// The number of objects that are refused or cannot be planned.
    pub(super) fn broken(&self) -> usize {
        let failed = self.objects.iter().filter(|one| matches!(one.pass, Pass::Failed(_)));
        let mut broken = self.refused();
        broken.extend(failed.map(|one| one.object.as_str()));
        broken.len()
    }

    /// The exit status of `doctor`: 2 if a release would get a new revision.
    ///
    /// # Errors
    /// Objects do not work here.
    pub(super) fn status(&self, kind: &str) -> Result<ExitCode, Failure> {
        let revised = |one: &ObjectPass| matches!(one.pass, Pass::Change { new_revision: true, .. });
        match self.broken() {
            0 if self.objects.iter().any(revised) => Ok(ExitCode::from(CHANGES)),
            0 => Ok(ExitCode::SUCCESS),
            count => Err(format!("{count} {kind}(s) do not work here")),
        }
    }

    /// The report of `doctor`: what does not work first.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        self.first.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        let refused = self.refused();
        for diagnosis in self.diagnoses.iter().filter(|d| d.weight == Weight::Breaks) {
            out.push_str(&format!("breaks: {}: {}\n", diagnosis.object, diagnosis.text));
        }
        for ObjectPass { object, pass } in &self.objects {
            match pass {
                // The diagnosis says more.
                Pass::Failed(_) if refused.contains(object.as_str()) => {}
                Pass::Failed(why) => out.push_str(&format!("cannot tell: {object}: {why}\n")),
                Pass::Change { head, .. } => out.push_str(&format!("would change: {head}\n")),
                Pass::Idle(word, Some(why)) => out.push_str(&format!("{word}: {object}: {why}\n")),
                Pass::Idle(_, None) | Pass::Unchanged => {}
            }
        }
        for diagnosis in self.diagnoses.iter().filter(|d| d.weight != Weight::Breaks) {
            let word = doctor::word(diagnosis.weight);
            out.push_str(&format!("{word}: {}: {}\n", diagnosis.object, diagnosis.text));
        }
        let count =
            |holds: &dyn Fn(&Pass) -> bool| self.objects.iter().filter(|one| holds(&one.pass)).count();
        out.push_str(&format!(
            "{} {}: {} unchanged, {} would get a new revision, {} {}, {} do not work here\n",
            self.objects.len(),
            self.kinds,
            count(&|pass| matches!(pass, Pass::Unchanged)),
            count(&|pass| matches!(pass, Pass::Change { new_revision: true, .. })),
            count(&|pass| matches!(pass, Pass::Idle(..))),
            self.idle,
            self.broken()
        ));
        out
    }
}

/// What would happen to each object, for `operator --observe`, with the changes of those that would change. `kind`: the word before each.
pub(super) fn passes_text(objects: &[ObjectPass], kind: &str, kinds: &str) -> String {
    let (mut out, mut differing) = (String::new(), 0);
    for ObjectPass { object, pass } in objects {
        let object = named(kind, object);
        match pass {
            Pass::Idle(word, None) => out.push_str(&format!("{object}: {word}\n")),
            Pass::Idle(word, Some(why)) => out.push_str(&format!("{object}: {word}: {why}\n")),
            Pass::Unchanged => out.push_str(&format!("{object}: unchanged\n")),
            Pass::Failed(why) => out.push_str(&format!("{object}: cannot tell: {why}\n")),
            Pass::Change { whole, .. } => out.push_str(whole),
        }
        differing += usize::from(matches!(pass, Pass::Change { .. } | Pass::Failed(_)));
    }
    out.push_str(&format!("{differing} of {} {kinds} would change\n", objects.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_work_comes_first() {
        let diagnosis = |weight, object: &str, text: &str| ObjectDiagnosis {
            weight,
            object: object.to_owned(),
            text: text.to_owned(),
        };
        let one = |object: &str, pass| ObjectPass { object: object.to_owned(), pass };
        let failed = |text: &str| Pass::Failed(text.to_owned());
        let diagnoses = [
            diagnosis(Weight::Breaks, "apps/db", "spec.driver: no"),
            diagnosis(Weight::Differs, "apps/web", "spec.jobImage: no effect"),
        ];
        let change = Pass::Change {
            head: "apps/web: upgrade".to_owned(),
            whole: "Web apps/web: would change:\n  all\n".to_owned(),
            new_revision: true,
        };
        let mut findings = Findings {
            kinds: "Webs",
            idle: "not managed",
            first: vec!["job: a job runs".to_owned()],
            diagnoses: &diagnoses,
            objects: vec![
                one("apps/asleep", Pass::Idle("suspended", None)),
                one("apps/db", failed("spec.driver: no")),
                one("apps/dns", Pass::Unchanged),
                one("apps/late", failed("no chart")),
                one("apps/other", Pass::Idle("not managed", Some("rke2 manages it".to_owned()))),
                one("apps/web", change),
            ],
        };
        let expected = "\
job: a job runs
breaks: apps/db: spec.driver: no
cannot tell: apps/late: no chart
not managed: apps/other: rke2 manages it
would change: apps/web: upgrade
differs: apps/web: spec.jobImage: no effect
6 Webs: 1 unchanged, 1 would get a new revision, 2 not managed, 2 do not work here
";
        assert_eq!(findings.text(), expected);
        assert_eq!(findings.status("Web"), Err("2 Web(s) do not work here".to_owned()));
        let text = passes_text(&findings.objects, "Web", "Webs");
        assert!(
            text.contains("Web apps/asleep: suspended\nWeb apps/db: cannot tell: spec.driver: no\n"),
            "{text}"
        );
        assert!(text.ends_with("Web apps/web: would change:\n  all\n3 of 6 Webs would change\n"), "{text}");
        findings.diagnoses = &[];
        findings.objects.retain(|one| !matches!(one.pass, Pass::Failed(_)));
        assert_eq!(findings.status("Web"), Ok(ExitCode::from(CHANGES)));
        findings.objects.pop();
        assert_eq!(findings.status("Web"), Ok(ExitCode::SUCCESS));
    }
}
