//! Every verb and flag that real Helm 4 tells of is taken: its help is the judge.

use std::collections::BTreeSet;

use super::support::User;

/// Verbs that are not ours, each with its reason.
const NOT_OURS: [(&str, &str); 4] = [
    ("create", "the skeleton of a chart is Helm's own work"),
    ("help", "--help says the same"),
    ("plugin", "plugins are installed by Helm; post-renderers among them are run"),
    ("search hub", "a search of one company's site"),
];

/// The verbs below a verb, by Helm's help.
fn verbs_below(user: &User, verb: &[String]) -> Vec<Vec<String>> {
    let help = help_of(user, verb);
    let list = help.split("Available Commands:\n").nth(1).and_then(|l| l.split("\n\n").next());
    let names: Vec<&str> =
        list.into_iter().flat_map(str::lines).filter_map(|l| l.split_whitespace().next()).collect();
    if names.is_empty() {
        return vec![verb.to_vec()];
    }
    let mut out = Vec::new();
    for name in names {
        let below: Vec<String> = verb.iter().cloned().chain([name.to_owned()]).collect();
        if !NOT_OURS.iter().any(|(known, _)| *known == below.join(" ")) {
            out.extend(verbs_below(user, &below));
        }
    }
    out
}

fn help_of(user: &User, verb: &[String]) -> String {
    let args: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
    user.helm_ok(&args)
}

/// The flags of a help text, long and short, and whether they are those of every verb.
fn flags(help: &str) -> Vec<(String, bool)> {
    let mut out = Vec::new();
    let mut global = false;
    for line in help.lines() {
        global |= line == "Global Flags:";
        let words = line.trim_start();
        if !line.starts_with(' ') || !words.starts_with('-') {
            continue;
        }
        let named = words.split(' ').take(2).map(|w| w.trim_end_matches(',')).filter(|w| w.starts_with('-'));
        out.extend(named.map(|w| w.split('[').next().unwrap().to_owned()).map(|w| (w, global)));
    }
    out
}

#[test]
fn every_verb_and_flag_of_helm_is_taken() {
    let user = User::new();
    let verbs = verbs_below(&user, &[]);
    let names: BTreeSet<String> = verbs.iter().map(|v| v.join(" ")).collect();
    assert!(names.len() > 35 && names.contains("repo add") && names.contains("get values"), "{names:?}");
    let (mut asked, mut missing) = (0, Vec::new());
    let mut globals_done = false;
    for verb in &verbs {
        for (flag, global) in flags(&help_of(&user, verb)) {
            if global && globals_done || flag == "-h" || flag == "--help" {
                continue;
            }
            let args: Vec<&str> = verb.iter().map(String::as_str).chain([flag.as_str(), "--help"]).collect();
            let said = user.ours(&args);
            asked += 1;
            if said.err.contains("unexpected argument") || said.err.contains("unrecognized subcommand") {
                missing.push(format!("{} {flag}", verb.join(" ")));
            }
        }
        globals_done = true;
    }
    assert!(asked > 300, "only {asked} flags were found in Helm's help");
    assert!(missing.is_empty(), "{} of {asked} flags are not taken: {missing:#?}", missing.len());
}

#[test]
fn what_helm_deprecates_works_with_its_words() {
    let user = User::new();
    for (verb, flag) in [
        ("install", "--atomic"),
        ("install", "--force"),
        ("upgrade", "--atomic"),
        ("upgrade", "--force"),
        ("rollback", "--force"),
        ("template", "--atomic"),
        ("template", "--force"),
        ("template", "--validate"),
    ] {
        let args = [verb, "x", "./nowhere", flag];
        let (theirs, own) = (user.helm(&args), user.ours(&args));
        let told = |said: &str| said.lines().find(|l| l.contains("deprecated")).map(str::to_owned);
        assert!(told(&theirs.err).is_some(), "{verb} {flag}: {}", theirs.err);
        assert_eq!(told(&own.err), told(&theirs.err), "{verb} {flag}");
    }
}
