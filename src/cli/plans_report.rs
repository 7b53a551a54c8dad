//! `windlass doctor helmreleases` and `doctor helmcharts`, as far as they are the same: the report of plans, and its exit status.
//!
//! Owns the lines that all kinds have. Knows no kind.

use std::process::ExitCode;

use super::output::{Format, structured};
use super::plan::CHANGES;
use super::{Failure, doctor, print};
use crate::preflight::{PassFinding, PassPlan, PlannedObject, PlansReport, Weight};
use windlass_base::redact;

/// How a kind's plans are printed.
pub(super) struct PlanTexts<P> {
    /// The kind.
    pub(super) kind: &'static str,
    /// Whether a failure is left out where a diagnosis of its object says more.
    pub(super) failures_once: bool,
    /// What objects are called that are left alone.
    pub(super) left_alone: &'static str,
    /// The head of a change in a report: of an object and its plan.
    pub(super) head: fn(&str, &P) -> String,
    /// A change with all its lines; painted or not.
    pub(super) change: fn(&str, &P, bool) -> String,
}

impl<P: PassPlan> PlanTexts<P> {
    /// Prints a report. `whole`: what other formats than a table print; `first`: the first lines of a table.
    pub(super) fn print(
        &self,
        report: &PlansReport<P>,
        (whole, first): (&impl serde::Serialize, &str),
        format: Format,
    ) -> Result<ExitCode, Failure> {
        let out = match format {
            Format::Table => format!("{first}{}", self.report(report)),
            format => structured(whole, format)?,
        };
        print(redact::mask(&out).as_bytes())?;
        match report.broken() {
            0 if report.releases.iter().any(PlannedObject::has_new_revision) => Ok(ExitCode::from(CHANGES)),
            0 => Ok(ExitCode::SUCCESS),
            count => Err(format!("{count} {}(s) do not work here", self.kind)),
        }
    }

    /// The report: what does not work first.
    pub(super) fn report(&self, report: &PlansReport<P>) -> String {
        let breaks = || report.diagnoses.iter().filter(|d| d.weight == Weight::Breaks);
        let mut out: String = breaks().map(|d| format!("breaks: {}: {}\n", d.object, d.text)).collect();
        for PlannedObject { object, finding } in &report.releases {
            match finding {
                PassFinding::Failed(_) if self.failures_once && breaks().any(|d| d.object == *object) => {}
                PassFinding::Failed(why) => out.push_str(&format!("cannot tell: {object}: {why}\n")),
                PassFinding::Change(plan) => {
                    out.push_str(&format!("would change: {}\n", (self.head)(object, plan)));
                }
                PassFinding::NotManaged(why) => out.push_str(&format!("not managed: {object}: {why}\n")),
                PassFinding::Unchanged | PassFinding::Suspended => {}
            }
        }
        for diagnosis in report.diagnoses.iter().filter(|d| d.weight != Weight::Breaks) {
            let word = doctor::word(diagnosis.weight);
            out.push_str(&format!("{word}: {}: {}\n", diagnosis.object, diagnosis.text));
        }
        let count =
            |holds: fn(&PlannedObject<P>) -> bool| report.releases.iter().filter(|r| holds(r)).count();
        out.push_str(&format!(
            "{} {}s: {} unchanged, {} would get a new revision, {} {}, {} do not work here\n",
            report.releases.len(),
            self.kind,
            count(|r| matches!(r.finding, PassFinding::Unchanged)),
            count(PlannedObject::has_new_revision),
            count(|r| matches!(r.finding, PassFinding::NotManaged(_) | PassFinding::Suspended)),
            self.left_alone,
            report.broken()
        ));
        out
    }

    /// What would happen to each object, with the plans of those that would change.
    pub(super) fn plans(&self, found: &[PlannedObject<P>], painted: bool) -> String {
        let (kind, mut out) = (self.kind, String::new());
        for PlannedObject { object, finding } in found {
            match finding {
                PassFinding::Change(plan) => out.push_str(&(self.change)(object, plan, painted)),
                PassFinding::Suspended => out.push_str(&format!("{kind} {object}: suspended\n")),
                PassFinding::NotManaged(why) => {
                    out.push_str(&format!("{kind} {object}: not managed: {why}\n"));
                }
                PassFinding::Unchanged => out.push_str(&format!("{kind} {object}: unchanged\n")),
                PassFinding::Failed(why) => out.push_str(&format!("{kind} {object}: cannot tell: {why}\n")),
            }
        }
        let differing = found.iter().filter(|release| release.differs()).count();
        out.push_str(&format!("{differing} of {} {kind}s would change\n", found.len()));
        out
    }
}
