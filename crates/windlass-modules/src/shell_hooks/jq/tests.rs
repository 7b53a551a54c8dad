//! Filters beside the answers of gojq.

use serde::Deserialize;
use serde_json::Value;

use super::{Filter, differences};

#[derive(Deserialize)]
struct Group {
    input: Value,
    filters: Vec<String>,
}

/// What gojq said, recorded by `make fixtures`.
#[derive(Deserialize)]
struct Answer {
    group: usize,
    filter: String,
    #[serde(default)]
    results: Vec<Value>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    refused: bool,
}

const QUESTIONS: &str = include_str!("../../../../../fixtures/hooks/jq.json");
const ANSWERS: &str = include_str!("../../../../../fixtures/hooks/jq.answers.json");

/// Filters that come out otherwise than with gojq, with the reason. A filter that agrees must leave the list.
const KNOWN: &[(&str, &str)] = &[
    (r#"{b: 1, a: 2} | keys_unsorted"#, "gojq has no such function; jq has"),
    (r#"{a: 1} | debug"#, "gojq has it in its command only"),
    (r#"1 | stderr"#, "gojq has it in its command only"),
    (r#"{@base64 "x": 1}"#, "taken, as jq takes it"),
    (r#"5.9 % 3"#, "jaq does not cut the operands to whole numbers"),
    (r#"1 | exp"#, "the last digit of a mathematical function"),
    (r#""a" * 0"#, "jq 1.7: null; jq 1.8 and gojq: empty text"),
    (r#""test" | test("T"; "ix")"#, "gojq has no flag x; jq has"),
    (
        r#""foo bar" | [match("(o)|(b)"; "g") | .captures | map(.string)]"#,
        "captures that took no part are left out",
    ),
    (r#""aaa" | gsub("a"; "b", "c")"#, "order of the results where a replacement has several"),
    (r#"" 1 " | tonumber"#, "blanks around a number are taken"),
    (r#"try (1 | keys) catch ."#, "the words of an error"),
    (r#""a" | .[0]"#, "gojq alone indexes text"),
    (r#"{a: 1} | has(0)"#, "false instead of an error"),
    (r#"[{"name": "a", "value": 1}, {"k": "b", "v": 2}] | from_entries"#, "the short names of jq are taken"),
    (r#"[1.5, 1.0, 1e100, 1e-7] | tojson"#, "how floats are written within text"),
    (r#"1700000000.5 | todate"#, "fractions of a second are kept"),
    (r#""10:20" | strptime("%H:%M")"#, "a time without a date"),
    (r#"[1] | . as [$a] ?// $a | $a"#, "no destructuring alternatives"),
    (r#"[[3]] | .[] as [$a] ?// $a | [$a]"#, "no destructuring alternatives"),
    (r#"[limit(-1; 1, 2)]"#, "nothing instead of an error"),
    (r#"builtins | length > 100"#, "no list of functions"),
    (r#"[1, 2, 3] | .[1.7]"#, "an index must be whole"),
    (r#""abc" | test("B"; null)"#, "flags must be text"),
    (r#""x" * 2.5"#, "a count must be whole"),
    (r#"[infinite, -infinite] | map(tostring)"#, "infinity within text"),
    (r#"1 | contains("a")"#, "false instead of an error"),
];

fn answer(input: &Value, filter: &str) -> Result<Vec<Value>, (bool, String)> {
    let filter = Filter::new(filter).map_err(|e| (true, e.to_string()))?;
    filter.run(input).map_err(|e| (false, e.to_string()))
}

#[test]
fn filters_answer_as_with_gojq() {
    let questions: Vec<Group> = serde_json::from_str(QUESTIONS).unwrap();
    let answers: Vec<Answer> = serde_json::from_str(ANSWERS).unwrap();
    let asked: Vec<&String> = questions.iter().flat_map(|g| &g.filters).collect();
    assert_eq!(asked, answers.iter().map(|a| &a.filter).collect::<Vec<_>>(), "make fixtures");
    let mut wrong = Vec::new();
    let mut agreed = 0;
    for answer_there in &answers {
        let filter = &answer_there.filter;
        let ours = answer(&questions[answer_there.group].input, filter);
        let same = match &ours {
            Ok(results) => answer_there.error.is_empty() && *results == answer_there.results,
            Err(_) => !answer_there.error.is_empty(),
        };
        let known = KNOWN.iter().any(|(f, _)| f == filter);
        agreed += usize::from(same);
        if same == known {
            let Answer { results, error, refused, .. } = answer_there;
            let theirs = Value::from(results.clone());
            wrong.push(format!("{filter}\n  gojq {theirs} {error} {refused}\n  ours {ours:?}"));
        }
    }
    println!("{agreed} of {} filters agree with gojq", answers.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn bindings_keep_null_one_or_a_list() {
    let input = serde_json::json!({"a": [1, 2]});
    for (filter, want) in [("empty", "null"), (".a", "[1,2]"), (".a[]", "[1,2]"), (".a[0]", "1")] {
        assert_eq!(Filter::new(filter).unwrap().apply(&input).unwrap().to_string(), want, "{filter}");
    }
}

#[test]
fn an_error_says_where() {
    for (filter, part) in [
        (".a.[", "expected"),
        ("nosuch(1)", "no filter nosuch"),
        ("$x", "no variable $x"),
        ("\"", "expected"),
    ] {
        let error = Filter::new(filter).unwrap_err().to_string();
        assert!(error.contains(part), "{filter}: {error}");
    }
    let error = Filter::new(".a | keys").unwrap().run(&serde_json::json!({"a": 1})).unwrap_err();
    assert!(error.to_string().starts_with("jq: "), "{error}");
}

/// Of [`KNOWN`] what no look at a filter's text tells, with what it depends on.
const UNSEEN: &[(&str, &str)] = &[
    (r#""a" | .[0]"#, "whether it is a text or a list"),
    (r#""aaa" | gsub("a"; "b", "c")"#, "how many results a filter has"),
    (r#"1 | contains("a")"#, "what it is compared with"),
];

#[test]
fn what_is_known_to_differ_is_seen_in_filters() {
    for (filter, why) in KNOWN {
        let seen = !differences(filter).is_empty();
        let unseen = UNSEEN.iter().any(|(f, _)| f == filter);
        assert!(seen != unseen, "{filter} ({why}): {seen}");
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../modules/MIGRATION.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for construct in super::differences::names() {
        let of = |filter: &str| differences(filter).iter().any(|(what, _)| *what == construct);
        assert!(KNOWN.iter().any(|(filter, _)| of(filter)), "{construct}: there is no such filter");
        // A bar within a cell of a table is escaped.
        let row = format!("| `{}` |", construct.replace('|', "\\|"));
        assert!(guide.contains(&row), "{row} is missing in MIGRATION.md");
    }
    // What hooks ask of objects usually.
    for filter in [
        ".metadata.labels",
        "{name: .metadata.name, debug: .spec.debug, catch: .spec.catch}",
        ".status.conditions[] | select(.type == \"Ready\") | .status",
        "[.spec.containers[].image | split(\":\")[0]]",
        ".data | to_entries | map(select(.key | test(\"^x\")))",
        ".spec.replicas // 1 | . * 2",
        "{labels: .metadata.labels, \"n\": (.spec.rules | length)}",
    ] {
        assert_eq!(differences(filter), [], "{filter}");
    }
}
