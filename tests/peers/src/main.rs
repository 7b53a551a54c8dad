//! Prints two Markdown tables: how many of Go's recorded answers each template engine and each YAML writer gives, and
//! how fast.
//!
//! Owns the comparison. The answers come from `make fixtures`. `charts` prints another table: how long the steps of a render take
//! on the charts of a corpus.

mod ask;
mod charts;
mod clock;
mod documents;
mod engines;
mod golang;
mod templates;

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let outcome = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print(),
        ["answer", name, index] => {
            recorded("templates/answers.json").and_then(|answers| ask::answer(&answers, name, index))
        }
        ["charts", corpus, windlass] => charts::print(Path::new(corpus), Path::new(windlass)),
        ["floor", archive] => charts::floor(Path::new(archive)),
        _ => Err("it takes no arguments; to record Go's answers anew: make fixtures".into()),
    };
    if let Err(error) = outcome {
        drop(writeln!(io::stderr(), "peers: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn print() -> Result<(), Box<dyn Error>> {
    let documents = recorded("yaml/answers.json")?;
    let (large, text) = documents::large(&documents)?;
    let (templates, go) = templates::table(&recorded("templates/answers.json")?, &text)?;
    let documents = documents::table(&documents, &large, &text, &go)?;
    writeln!(io::stdout(), "{templates}\n{documents}")?;
    Ok(())
}

fn recorded(name: &str) -> Result<Value, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    let text = fs::read(&path).map_err(|e| format!("{}: {e}: make fixtures records it", path.display()))?;
    Ok(serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?)
}
