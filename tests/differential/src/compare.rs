//! Asks both sides, and makes a difference small enough to read.

use std::collections::BTreeMap;
use std::error::Error;

use crate::choices::Choices;
use crate::go::Go;
use crate::{Answer, Case, Family, ours};

/// Questions that are asked at once.
const BATCH: usize = 500;
/// Differences of a run that are made small; further ones are only counted.
const SHRUNK: usize = 300;
/// Questions that making one small may cost.
const PATIENCE: usize = 1500;
/// Of an output, so many characters are shown, from so many before the difference on.
const SHOWN: usize = 400;
const BEFORE: usize = 150;
/// Deaths of Go that making one small may cost: where it dies of one, it dies of most that are like it, after a while each.
const DEATHS: usize = 3;
/// How often Go is asked again: where it ranges over maps, it does not agree with itself, of two entries in one of eight cases.
const AGAIN: usize = 40;

/// What a run over a family found.
#[derive(Debug, Default)]
pub struct Report {
    /// Questions asked.
    pub asked: usize,
    /// Questions that Go answered with an error.
    pub errors: usize,
    /// Questions that Go does not finish, or dies of.
    pub lost: usize,
    /// Questions that Go itself answers now this way, now that.
    pub wavering: usize,
    /// Questions that the two answer differently.
    pub different: usize,
    /// Differences, made small: each once, with its number of sightings.
    pub classes: BTreeMap<String, (Difference, usize)>,
}

/// A difference.
#[derive(Debug)]
pub struct Difference {
    /// The seed of the question as it was found.
    pub seed: u64,
    /// The question, made small.
    pub case: Case,
    /// Go's answer.
    pub go: Answer,
    /// Our answer.
    pub ours: Answer,
}

/// The seed of one question of a run.
fn seed_of(seed: u64, n: usize) -> u64 {
    Choices::seeded(seed.wrapping_mul(1_000_003).wrapping_add(n as u64)).seed()
}

/// Asks so many questions of a family.
///
/// # Errors
/// If the Go side cannot be started, or dies.
pub fn run(family: Family, count: usize, seed: u64) -> Result<Report, Box<dyn Error>> {
    let mut go = Go::start(family.profile())?;
    let mut report = Report::default();
    while report.asked < count {
        let seeds: Vec<u64> =
            (report.asked..count.min(report.asked + BATCH)).map(|n| seed_of(seed, n)).collect();
        let cases: Vec<Case> = seeds.iter().map(|s| family.make(&mut Choices::seeded(*s))).collect();
        let answers = go.ask(&cases.iter().collect::<Vec<_>>())?;
        for ((case, theirs), seed) in cases.iter().zip(answers).zip(&seeds) {
            let Some(theirs) = theirs else {
                report.lost += 1;
                continue;
            };
            report.errors += usize::from(theirs.error.is_some());
            if ours::answer(case) != theirs {
                note(&mut report, &mut go, family, *seed)?;
            }
        }
        report.asked += seeds.len();
    }
    Ok(report)
}

fn note(report: &mut Report, go: &mut Go, family: Family, seed: u64) -> Result<(), Box<dyn Error>> {
    let mut choices = Choices::seeded(seed);
    let case = family.make(&mut choices);
    if difference(go, &case)?.is_none() {
        report.wavering += 1;
        return Ok(());
    }
    if report.different >= SHRUNK {
        report.different += 1;
        return Ok(());
    }
    let mut found = None;
    for case in shrink(go, family, choices.tape())?.into_iter().chain([case]) {
        if let Some((theirs, ours)) = difference(go, &case)? {
            found = Some((case, theirs, ours));
            break;
        }
    }
    // Go may say the same 40 times of two entries of a map, and something else the next time.
    let Some((case, theirs, ours)) = found else {
        report.wavering += 1;
        return Ok(());
    };
    report.different += 1;
    let class = class(&theirs, &ours, &case);
    report.classes.entry(class).or_insert_with(|| (Difference { seed, case, go: theirs, ours }, 0)).1 += 1;
    Ok(())
}

/// Both answers, if they differ whatever Go says.
fn difference(go: &mut Go, case: &Case) -> Result<Option<(Answer, Answer)>, Box<dyn Error>> {
    let mut theirs = go.ask(&[case; AGAIN])?;
    let ours = ours::answer(case);
    let steady = theirs.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(theirs.pop().flatten().filter(|t| steady && *t != ours).map(|t| (t, ours)))
}

/// A smaller question over which the two differ too.
fn shrink(go: &mut Go, family: Family, mut tape: Vec<u32>) -> Result<Option<Case>, Box<dyn Error>> {
    let (mut smallest, mut asked, mut deaths) = (None, 0, 0);
    loop {
        let candidates = candidates(&tape);
        let mut found = None;
        for chunk in candidates.chunks(32) {
            let cases: Vec<Case> =
                chunk.iter().map(|t| family.make(&mut Choices::replayed(t.clone()))).collect();
            asked += cases.len();
            let answers = go.ask(&cases.iter().collect::<Vec<_>>())?;
            deaths += answers.iter().filter(|a| a.is_none()).count();
            for ((tape, case), theirs) in chunk.iter().zip(cases).zip(answers) {
                if theirs.is_some_and(|t| ours::answer(&case) != t) && difference(go, &case)?.is_some() {
                    found = Some((tape.clone(), case));
                    break;
                }
            }
            if found.is_some() || asked > PATIENCE || deaths > DEATHS {
                break;
            }
        }
        let Some((shorter, case)) = found else { return Ok(smallest) };
        (tape, smallest) = (shorter, Some(case));
        if asked > PATIENCE || deaths > DEATHS {
            return Ok(smallest);
        }
    }
}

/// Simpler records: parts left out, choices made simpler.
fn candidates(tape: &[u32]) -> Vec<Vec<u32>> {
    let mut out = Vec::new();
    let mut size = tape.len() / 2;
    while size > 0 {
        for start in (0..tape.len()).step_by(size) {
            let end = tape.len().min(start + size);
            out.push([&tape[..start], &tape[end..]].concat());
        }
        size /= 2;
    }
    for (i, choice) in tape.iter().enumerate().filter(|(_, c)| **c > 0) {
        for simpler in [0, choice / 2, choice - 1] {
            if simpler < *choice {
                let mut tape = tape.to_vec();
                tape[i] = simpler;
                out.push(tape);
            }
        }
    }
    out
}

/// What differences of one cause have in common: the words of both answers without what a case puts into them.
fn class(theirs: &Answer, ours: &Answer, case: &Case) -> String {
    let shape = |text: &str| -> String {
        let words: String = text.chars().map(|c| if c.is_alphabetic() { c } else { ' ' }).collect();
        words.split(' ').filter(|w| w.len() > 3).take(12).collect::<Vec<_>>().join(" ")
    };
    match (&theirs.error, &ours.error) {
        // A short text is shown whole: what it is about may be a sign.
        (None, None) if case.text.len() < 80 => case.shown(),
        (None, None) => format!("output: {}", shape(&case.shown())),
        (Some(a), None) => format!("only Go fails: {}", shape(a)),
        (None, Some(b)) => format!("only we fail: {}", shape(b)),
        (Some(a), Some(b)) => format!("errors: {} | {}", shape(a), shape(b)),
    }
}

/// At which character two texts are different.
fn first_difference(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

impl Report {
    /// The differences for people.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut out = String::new();
        for (found, sightings) in self.classes.values() {
            let Difference { seed, case, go, ours } = found;
            let from = first_difference(&go.output, &ours.output).saturating_sub(BEFORE);
            let shown = |a: &Answer| {
                let output: String = a.output.chars().skip(from).take(SHOWN).collect();
                match &a.error {
                    None => format!("from {from}: {output:?}"),
                    Some(e) if a.output.is_empty() => format!("error {e:?}"),
                    Some(e) => format!("from {from}: {output:?} and error {e:?}"),
                }
            };
            let values = case.values.get("v").unwrap_or(&case.values);
            out += &format!(
                "{sightings} like this (seed {seed}, {:?}, values {})\n  {:?}\n  Go   {}\n  ours {}\n",
                case.kind,
                values,
                case.shown(),
                shown(go),
                shown(ours)
            );
        }
        out
    }
}
