//! Crontabs beside the answers of robfig/cron.

use jiff::Timestamp;
use serde::Deserialize;

use super::Cron;

#[derive(Deserialize)]
struct Questions {
    times: Vec<Timestamp>,
    crontabs: Vec<String>,
}

/// What robfig/cron said, recorded by `make fixtures`.
#[derive(Deserialize)]
struct Answer {
    crontab: String,
    #[serde(default)]
    next: Vec<Vec<Timestamp>>,
    #[serde(default)]
    error: String,
}

#[test]
fn times_are_those_of_robfig_cron() {
    let questions: Questions =
        serde_json::from_str(include_str!("../../../../fixtures/hooks/cron.json")).unwrap();
    let answers: Vec<Answer> =
        serde_json::from_str(include_str!("../../../../fixtures/hooks/cron.answers.json")).unwrap();
    let asked: Vec<&String> = answers.iter().map(|a| &a.crontab).collect();
    assert_eq!(questions.crontabs.iter().collect::<Vec<_>>(), asked, "make fixtures");
    let mut wrong = Vec::new();
    for Answer { crontab, next, error } in &answers {
        let cron = match Cron::parse(crontab) {
            Ok(cron) => cron,
            Err(e) if error.is_empty() => {
                wrong.push(format!("{crontab:?} is refused: {e}"));
                continue;
            }
            Err(_) => continue,
        };
        if !error.is_empty() {
            wrong.push(format!("{crontab:?} is taken; robfig/cron says {error}"));
            continue;
        }
        for (at, want) in questions.times.iter().zip(next) {
            let mut ours = Vec::new();
            let mut last = *at;
            while let Some(time) = cron.next(last).filter(|_| ours.len() < 5) {
                ours.push(time);
                last = time;
            }
            if ours != *want {
                wrong.push(format!("{crontab:?} after {at}: {ours:?} instead of {want:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
}

/// The forms of robfig/cron v1, where five fields mean something else than in v2.
#[test]
fn seconds_come_first_and_the_weekday_may_be_left_out() {
    let at: Timestamp = "2026-01-07T12:30:20Z".parse().unwrap();
    for (text, same) in [
        ("0 3 * * *", "0 3 * * * *"),
        ("30 * * * ?", "30 * * * ? *"),
        ("0 0 3 * * MON", "0 0 3 * * 1"),
        ("@hourly", "@hourly"),
        ("@every 10m", "@every 10m"),
    ] {
        let (found, expected) = (Cron::parse_with_seconds(text).unwrap(), Cron::parse(same).unwrap());
        assert_eq!((found.next(at), found.text()), (expected.next(at), text));
    }
    for (text, part) in [
        ("0 3 * *", "it has 4 fields, not 6 with seconds first"),
        ("TZ=UTC 0 3 * * *", "a time zone is not read here"),
        ("0 99 * * *", "is not a range within 0-59"),
        ("", "it has 0 fields"),
    ] {
        let error = Cron::parse_with_seconds(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_step_of_nothing_is_refused() {
    // Go's library counts forever, so that no answer can be recorded.
    let error = Cron::parse("*/0 * * * *").unwrap_err().to_string();
    assert_eq!(error, "\"*/0 * * * *\": no step of \"0\" in \"*/0\"");
}
