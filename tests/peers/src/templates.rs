//! The table of template engines.

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ask::{Given, ask};
use crate::clock::{micros, per_turn};
use crate::engines::{Engine, Gotmpl, Gtmpl, Ours};
use crate::golang;

/// What a manifest does most: loops, fields, a branch, a function. All engines can run it.
pub(crate) const LOOP: &str = "{{ range .items }}- name: {{ .name }}\n  port: {{ .port }}\n{{ if .public }}  host: \
                    {{ printf \"%s.example.com\" .name }}\n{{ end }}{{ end }}";

/// One of Go's answers.
struct Answer<'r> {
    template: &'r str,
    /// The output, or the error.
    go: Result<&'r str, &'r str>,
}

/// How an engine fared.
struct Row {
    name: &'static str,
    /// For each probe: whether it gave Go's output, or failed as Go does.
    right: Vec<bool>,
    /// How many errors had Go's text.
    worded: usize,
    crashes: usize,
    hangs: usize,
}

pub(crate) fn table(recorded: &Value, document: &str) -> Result<(String, golang::Times), Box<dyn Error>> {
    let list = recorded["answers"].as_array().ok_or("templates/answers.json has no answers")?;
    let answers: Vec<Answer<'_>> = list
        .iter()
        .map(|a| Answer {
            template: a["template"].as_str().unwrap_or_default(),
            go: a["output"].as_str().ok_or(a["error"].as_str().unwrap_or_default()),
        })
        .collect();
    let data = &recorded["data"];
    let rows = [row::<Gtmpl>(&answers)?, row::<Gotmpl>(&answers)?, row::<Ours>(&answers)?];

    // Times are taken where all agree with Go, on texts that have an output.
    let common: Vec<&str> = (0..answers.len())
        .filter(|i| answers[*i].go.is_ok() && rows.iter().all(|r| r.right[*i]))
        .map(|i| answers[i].template)
        .collect();
    let items: Vec<Value> = (0..1000)
        .map(|i| json!({"name": format!("item-{i}"), "port": 8000 + i, "public": i % 2 == 0}))
        .collect();
    let items = json!({ "items": items });
    let go = golang::times(&common, data, &items, document)?;
    let times = [
        times::<Gtmpl>(&common, data, &items)?,
        times::<Gotmpl>(&common, data, &items)?,
        times::<Ours>(&common, data, &items)?,
    ];

    let outputs = answers.iter().filter(|a| a.go.is_ok()).count();
    let errors = answers.len() - outputs;
    let mut out = format!(
        "| template engine | Go's output (of {outputs}) | an error where Go has one (of {errors}) | in Go's words | \
         parse a probe | run it | run a loop of 1,000 |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    );
    let [parse, run, large] = [go.parse, go.run, go.large].map(micros);
    writeln!(
        out,
        "| text/template of {} | {outputs} | {errors} | {errors} | {parse} | {run} | {large} |",
        go.version
    )?;
    for (row, times) in rows.iter().zip(times) {
        let right =
            |ok: bool| (0..answers.len()).filter(|i| answers[*i].go.is_ok() == ok && row.right[*i]).count();
        let [parse, run, large] = times.map(micros);
        writeln!(
            out,
            "| {} | {} | {} | {} | {parse} | {run} | {large} |",
            row.name,
            right(true),
            right(false),
            row.worded
        )?;
    }
    let common = common.len();
    writeln!(out, "\nTimes of probes: the mean of {common} medians, of probes that all answer as Go does.")?;
    for row in rows.iter().filter(|row| row.crashes + row.hangs > 0) {
        writeln!(out, "{} crashed on {} probes and did not end on {}.", row.name, row.crashes, row.hangs)?;
    }
    Ok((out, go))
}

fn row<E: Engine>(answers: &[Answer<'_>]) -> Result<Row, Box<dyn Error>> {
    let mut row = Row { name: E::NAME, right: Vec::new(), worded: 0, crashes: 0, hangs: 0 };
    for (index, answer) in answers.iter().enumerate() {
        let given = ask(E::NAME, index)?;
        match &given {
            Given::Crash => row.crashes += 1,
            Given::Hang => row.hangs += 1,
            Given::Error(text) => row.worded += usize::from(answer.go == Err(text)),
            Given::Output(_) => {}
        }
        row.right.push(match (given, answer.go) {
            (Given::Output(given), Ok(go)) => given == go,
            (Given::Error(_), Err(_)) => true,
            _ => false,
        });
    }
    Ok(row)
}

/// Parsing a probe, running it, and running the loop over many items.
fn times<E: Engine>(probes: &[&str], data: &Value, items: &Value) -> Result<[Duration; 3], String> {
    let (data, items) = (E::data(data), E::data(items));
    let (mut parsing, mut running) = (Duration::ZERO, Duration::ZERO);
    for text in probes {
        parsing += per_turn(|turns| {
            for _ in 0..turns {
                drop(black_box(E::parse(black_box(text))));
            }
        });
        let parsed = E::parse(text)?;
        running += per_turn(|turns| drop(black_box(E::run(&parsed, &data, turns))));
    }
    let count = u32::try_from(probes.len().max(1)).unwrap_or(u32::MAX);
    let parsed = E::parse(LOOP)?;
    E::run(&parsed, &items, 1)?;
    let large = per_turn(|turns| drop(black_box(E::run(&parsed, &items, turns))));
    Ok([parsing / count, running / count, large])
}
