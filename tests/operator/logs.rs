//! The forms of log lines, asked for by the peer's name of the command and its environment.

use std::process::Command;

use serde_json::Value;

/// Exit status and log of a start without a cluster.
fn all(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["start", "--observe", "--modules-dir", "/nonexistent"]).env("TILLER_NAMESPACE", "x");
    let done = command.env("KUBECONFIG", "/nonexistent").envs(variables.iter().copied()).output().unwrap();
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

/// Its first line: a variable that has no effect any more.
fn line(variables: &[(&str, &str)]) -> String {
    let (status, text) = all(variables);
    assert_eq!(status, Some(1), "{text}");
    text.lines().find(|l| l.contains("TILLER_NAMESPACE")).expect(&text).to_owned()
}

#[test]
fn lines_are_text_json_or_coloured_with_their_times_or_without() {
    // The peer's least talkative level is none of ours, and no reason not to start.
    assert!(!all(&[("LOG_LEVEL", "Fatal")]).1.contains("TILLER_NAMESPACE"));
    assert!(all(&[("LOG_LEVEL", "loud")]).1.contains("\"loud\" is not a level: write error"));
    let is_time = |word: &str| word.parse::<jiff::Timestamp>().is_ok();
    let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let text = line(&[]);
    assert!(is_time(&first(&text)) && text.contains(" WARN ") && !text.contains('\u{1b}'), "{text:?}");
    assert_eq!(line(&[("LOG_TYPE", "text")]).split_once(' ').unwrap().1, text.split_once(' ').unwrap().1);
    let timeless = line(&[("LOG_NO_TIME", "true")]);
    assert_eq!(timeless.trim_start(), text.split_once(' ').unwrap().1.trim_start());

    let color = line(&[("LOG_TYPE", "color")]);
    let paint = |text: &str| text.contains("\u{1b}[33m WARN") || text.contains("\u{1b}[33mWARN");
    assert!(paint(&color), "{color:?}");
    let timeless = line(&[("LOG_TYPE", "color"), ("LOG_NO_TIME", "1")]);
    assert!(paint(&timeless) && timeless.len() < color.len(), "{timeless:?}");

    let json = |variables: &[(&str, &str)]| serde_json::from_str::<Value>(&line(variables)).unwrap();
    let whole = json(&[("LOG_TYPE", "json")]);
    assert_eq!(whole["level"], "WARN");
    assert!(whole["message"].as_str().unwrap().starts_with("TILLER_NAMESPACE has no effect"), "{whole}");
    assert!(is_time(whole["timestamp"].as_str().unwrap()), "{whole}");
    let timeless = json(&[("LOG_TYPE", "json"), ("LOG_NO_TIME", "true")]);
    assert_eq!((&timeless["message"], &timeless["timestamp"]), (&whole["message"], &Value::Null));
}
