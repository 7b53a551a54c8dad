//! `differential [COUNT [SEED [FAMILY...]]]`: asks Go and us so many generated questions of each family, and prints a table.

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, panic, thread};

use windlass_differential::{Family, compare};

fn main() -> ExitCode {
    // A panic is an answer here, and told with the others.
    panic::set_hook(Box::new(|_| {}));
    match run() {
        Ok(code) => code,
        Err(error) => {
            drop(writeln!(io::stderr(), "differential: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let count = words.next().map_or(Ok(100_000), |w| w.parse())?;
    let seed = words.next().map_or(Ok(1), |w| w.parse())?;
    let names: Vec<String> = words.collect();
    let mut out = io::stdout();
    let mut found = false;
    writeln!(
        out,
        "| family | questions | Go fails | Go is lost | Go wavers | different | classes | seconds |"
    )?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    let mut told = String::new();
    for family in Family::ALL.into_iter().filter(|f| names.is_empty() || names.contains(&f.name())) {
        let begin = Instant::now();
        let report = thread::scope(|s| {
            s.spawn(|| compare::run(family, count, seed).map_err(|e| e.to_string())).join()
        })
        .map_err(|_| "a panic outside our answers")??;
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {:.0} |",
            family.name(),
            report.asked,
            report.errors,
            report.lost,
            report.wavering,
            report.different,
            report.classes.len(),
            begin.elapsed().as_secs_f32()
        )?;
        if report.different > 0 {
            found = true;
            told += &format!("\n{}, seed {seed}\n{}", family.name(), report.shown());
        }
    }
    write!(out, "{told}")?;
    Ok(if found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
