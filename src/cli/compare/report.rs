//! The report, as a table or structured.

use serde::Serialize;

use super::super::Failure;
use super::super::output::{self, Format};
use super::Case;
use super::judge::Verdict;
use super::program::Helm;

/// One line of the table.
pub(super) struct Row {
    chart: String,
    values: String,
    pub(super) verdict: Verdict,
    pub(super) helm_ms: Option<u128>,
    pub(super) windlass_ms: Option<u128>,
    /// The comparison of the release's record with today's render.
    pub(super) record: Option<String>,
    pub(super) diff: Option<String>,
}

impl Row {
    pub(super) fn new(case: &Case) -> Self {
        Self {
            chart: case.chart.clone(),
            values: case.values.clone(),
            verdict: Verdict::Equal,
            helm_ms: None,
            windlass_ms: None,
            record: None,
            diff: None,
        }
    }

    fn result(&self) -> String {
        match &self.verdict {
            Verdict::Equal => "equal".to_owned(),
            Verdict::BothFail => "equal, both fail".to_owned(),
            Verdict::EqualButFor(n) => {
                let (lines, verb) = if *n == 1 { ("line", "that") } else { ("lines", "that") };
                format!("equal but for {n} {lines} {verb} helm itself prints differently each time")
            }
            Verdict::Differs(what) => format!("DIFFERS: {what}"),
            Verdict::NotCompared(why) => format!("not compared: {why}"),
        }
    }
}

/// All rows, and the names of the compared programs.
pub(super) struct Report {
    helm: String,
    version: String,
    profile: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct JsonRow<'r> {
    chart: &'r str,
    values: &'r str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    helm_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    windlass_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<&'r str>,
}

#[derive(Serialize)]
struct Json<'r> {
    helm: &'r str,
    helm_version: &'r str,
    profile: &'r str,
    windlass_version: &'static str,
    compared: usize,
    differing: usize,
    cases: Vec<JsonRow<'r>>,
}

impl Report {
    pub(super) fn new(helm: &Helm, rows: Vec<Row>) -> Self {
        Self {
            helm: helm.path.clone(),
            version: helm.version.clone(),
            profile: helm.profile.to_string(),
            rows,
        }
    }

    pub(super) fn compared(&self) -> usize {
        self.rows.iter().filter(|r| !matches!(r.verdict, Verdict::NotCompared(_))).count()
    }

    pub(super) fn differing(&self) -> usize {
        self.rows.iter().filter(|r| matches!(r.verdict, Verdict::Differs(_))).count()
    }

    pub(super) fn text(&self, format: Format) -> Result<String, Failure> {
        match format {
            Format::Table => Ok(self.table()),
            format => output::structured(&self.json(), format),
        }
    }

    fn json(&self) -> Json<'_> {
        let row = |r: &'_ Row| {
            let (result, detail) = match &r.verdict {
                Verdict::Equal => ("equal", None),
                Verdict::BothFail => ("both-fail", None),
                Verdict::EqualButFor(_) => ("equal-but-random", Some(r.result())),
                Verdict::Differs(what) => ("differs", Some(what.clone())),
                Verdict::NotCompared(why) => ("not-compared", Some(why.clone())),
            };
            (result, detail)
        };
        let cases = self.rows.iter().map(|r| {
            let (result, detail) = row(r);
            JsonRow {
                chart: &r.chart,
                values: &r.values,
                result,
                detail,
                helm_ms: r.helm_ms,
                windlass_ms: r.windlass_ms,
                record: r.record.as_deref(),
                diff: r.diff.as_deref(),
            }
        });
        Json {
            helm: &self.helm,
            helm_version: &self.version,
            profile: &self.profile,
            windlass_version: env!("CARGO_PKG_VERSION"),
            compared: self.compared(),
            differing: self.differing(),
            cases: cases.collect(),
        }
    }

    fn table(&self) -> String {
        let records = self.rows.iter().any(|r| r.record.is_some());
        let (first, second) = if records { ("RELEASE", "CHART") } else { ("CHART", "VALUES") };
        let mut rows = vec![[first, second, "HELM MS", "WINDLASS MS"].map(str::to_owned).to_vec()];
        if records {
            rows[0].push("RECORD".to_owned());
        }
        rows[0].push("RESULT".to_owned());
        let number = |n: Option<u128>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        for r in &self.rows {
            let mut row = vec![r.chart.clone(), r.values.clone(), number(r.helm_ms), number(r.windlass_ms)];
            if records {
                row.push(r.record.clone().unwrap_or_else(|| "-".to_owned()));
            }
            row.push(r.result());
            rows.push(row);
        }
        let mut out = format!(
            "helm {} ({}) beside windlass {} as {}\n\n{}\n",
            self.version,
            self.helm,
            env!("CARGO_PKG_VERSION"),
            self.profile,
            output::table(&rows)
        );
        for diff in self.rows.iter().filter_map(|r| r.diff.as_ref()) {
            out.push_str(diff);
            out.push('\n');
        }
        out.push_str(&self.summary());
        out
    }

    fn summary(&self) -> String {
        let count = |f: fn(&Verdict) -> bool| self.rows.iter().filter(|r| f(&r.verdict)).count();
        let compared = self.compared();
        let mut out = format!("{} of {compared} equal", compared - self.differing());
        let parts = [
            (count(|v| matches!(v, Verdict::BothFail)), "because both fail in the same words"),
            (
                count(|v| matches!(v, Verdict::EqualButFor(_))),
                "but for lines that helm itself prints differently each time",
            ),
        ];
        for (n, text) in parts {
            if n > 0 {
                out.push_str(&format!(", {n} of them {text}"));
            }
        }
        let skipped = self.rows.len() - compared;
        if skipped > 0 {
            out.push_str(&format!("; {skipped} not compared"));
        }
        if let Some(ratio) = self.ratio() {
            out.push_str(&format!("; windlass takes 1/{ratio:.1} of helm's time in the median"));
        }
        out + "\n"
    }

    /// The median of helm's duration divided by ours.
    #[allow(clippy::cast_precision_loss)]
    fn ratio(&self) -> Option<f64> {
        let ratio = |r: &Row| Some(r.helm_ms? as f64 / r.windlass_ms?.max(1) as f64);
        let mut ratios: Vec<f64> = self.rows.iter().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }
}
