//! Templates: control structures, variables, nested templates, and expressions of a wanted kind.

use super::functions::FUNCTIONS;
use super::text::{literal, mutate, quoted, text, unicode};
use super::tree::tree;
use super::yaml;
use crate::choices::Choices;

/// What an expression is to be; another kind now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Int,
    Float,
    Bool,
    Text,
    List,
    Map,
    Moment,
    Version,
    /// Any other letter of [`FUNCTIONS`].
    Letter(char),
}

impl Kind {
    fn of(letter: char) -> Self {
        match letter {
            'a' => Self::Any,
            'i' => Self::Int,
            'f' => Self::Float,
            'b' => Self::Bool,
            's' => Self::Text,
            'l' => Self::List,
            'm' => Self::Map,
            'd' => Self::Moment,
            'V' => Self::Version,
            other => Self::Letter(other),
        }
    }
}

const ANY: &[Kind] = &[
    Kind::Int,
    Kind::Text,
    Kind::Float,
    Kind::Bool,
    Kind::List,
    Kind::Map,
    Kind::Letter('n'),
    Kind::Letter('t'),
    Kind::Version,
    Kind::Letter('D'),
    Kind::Letter('N'),
];

/// Pieces that a damaged template gets.
const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    "{{ end }}",
    "{{ else }}",
    "{{ break }}",
    "|",
    "(",
    ")",
    ":=",
    "=",
    "$x",
    ".",
    " ",
    "\"",
    "`",
    "'a'",
    "{{/*",
    "*/}}",
    "{{ if",
    "{{ range",
    "$",
    ",",
    ".a",
    "{{ define \"t\" }}",
    "{{ template \"t\" . }}",
    "nil",
    "\n",
    "1",
    "0x",
    "{{ continue }}",
    "{{ else if 1 }}",
    "{{ else with 1 }}",
    "{{ block \"b\" . }}",
    "1i",
    "'",
    "\\",
];

/// One call of a function, and what it gave: shown, as JSON and with its type.
pub(crate) fn function(c: &mut Choices) -> Vec<u8> {
    let (name, parameters, _) = c.of(FUNCTIONS);
    let mut call = name.as_bytes().to_vec();
    arguments(c, &mut call, parameters, 2, 8);
    match c.below(3) {
        0 => [b"{{ ", &call[..], b" }}"].concat(),
        1 => [b"{{ ", &call[..], b" | toJson }}"].concat(),
        _ => [b"{{ $r := ", &call[..], b" }}{{ typeOf $r }} {{ $r }} {{ printf `%#v` $r }}"].concat(),
    }
}

/// Values written by one of the formats, or a text read by one.
pub(crate) fn codec(c: &mut Choices) -> Vec<u8> {
    const WRITE: &[&str] = &[
        "toYaml",
        "toYamlPretty",
        "toJson",
        "toPrettyJson",
        "toRawJson",
        "toToml",
        "mustToYaml",
        "mustToToml",
    ];
    let write = c.of(WRITE);
    match c.below(4) {
        0 | 1 => format!("{{{{ {write} .Values.v }}}}").into_bytes(),
        2 => {
            let value = expression(c, Kind::Any, 3);
            [b"{{ ", write.as_bytes(), b" ", &value[..], b" }}"].concat()
        }
        _ => {
            let (read, kind) = c.of(&[
                ("fromYaml", 'y'),
                ("fromYamlArray", 'y'),
                ("fromJson", 'j'),
                ("mustFromJson", 'j'),
                ("fromJsonArray", 'j'),
                ("fromToml", 'O'),
            ]);
            let value = expression(c, Kind::Letter(kind), 0);
            [b"{{ ", read.as_bytes(), b" ", &value[..], b" | toJson }}"].concat()
        }
    }
}

/// A whole template.
pub(crate) fn template(c: &mut Choices) -> Vec<u8> {
    let mut out = Vec::new();
    let mut scope = Scope { variables: 0, loops: 0, depth: 3 };
    if c.one_in(3) {
        definition(c, &mut out);
    }
    for _ in 0..=c.below(4) {
        statement(c, &mut out, &mut scope);
    }
    if c.one_in(8) { mutate(c, out, PIECES) } else { out }
}

struct Scope {
    /// How many variables `$v0`, `$v1`, … there are.
    variables: usize,
    loops: usize,
    depth: usize,
}

fn open(c: &mut Choices, out: &mut Vec<u8>) {
    out.extend(c.of(&["{{ ", "{{ ", "{{ ", "{{- ", "{{", "{{-\n"]).bytes());
}

fn close(c: &mut Choices, out: &mut Vec<u8>) {
    out.extend(c.of(&[" }}", " }}", " }}", " -}}", "}}", "\n-}}"]).bytes());
}

fn definition(c: &mut Choices, out: &mut Vec<u8>) {
    out.extend(b"{{ define \"");
    out.extend(c.of(&["t", "u", "probe.name"]).bytes());
    out.extend(b"\" }}");
    let mut scope = Scope { variables: 0, loops: 0, depth: 1 };
    for _ in 0..=c.below(2) {
        statement(c, out, &mut scope);
    }
    out.extend(b"{{ end }}");
}

fn body(c: &mut Choices, out: &mut Vec<u8>, scope: &mut Scope) {
    let variables = scope.variables;
    scope.depth -= 1;
    for _ in 0..=c.below(2) {
        statement(c, out, scope);
    }
    scope.depth += 1;
    // One in twenty uses a variable out of its scope.
    if !c.one_in(20) {
        scope.variables = variables;
    }
}

fn statement(c: &mut Choices, out: &mut Vec<u8>, scope: &mut Scope) {
    let pick = c.below(if scope.depth == 0 { 8 } else { 15 });
    if pick == 1 {
        out.extend(
            c.of(&["x", " ", "\n", "  a: b\n", "<no value>", "- ", "é", "{", "}", "\t", "{ {", "%}", "#"])
                .bytes(),
        );
        return;
    }
    open(c, out);
    match pick {
        6 => {
            let value = expression_in(c, Kind::Any, 2, scope);
            // Every third shadows one that there is.
            let shadows = scope.variables > 0 && c.one_in(3);
            let variable = if shadows { c.below(scope.variables) } else { scope.variables };
            out.extend(format!("$v{variable} := ").bytes());
            out.extend(pipeline(c, value));
            scope.variables += usize::from(!shadows);
        }
        7 => match c.below(6) {
            0 | 5 if scope.variables > 0 => {
                let value = expression_in(c, Kind::Any, 2, scope);
                out.extend(format!("$v{} = ", c.below(scope.variables)).bytes());
                out.extend(value);
            }
            1 => out.extend(b"template \"t\" ."),
            2 => out.extend(
                c.of(&[
                    "template \"u\"",
                    "template \"none\" .",
                    "template \"probe.name\" .Values",
                    "template \"t\" $",
                ])
                .bytes(),
            ),
            3 if scope.loops > 0 || c.one_in(10) => out.extend(c.of(&["break", "continue"]).bytes()),
            4 => out.extend(c.of(&["/* c */", "/* a\nb */"]).bytes()),
            _ => out.extend(
                c.of(&[
                    "include \"t\" .",
                    "tpl \"{{ .Values.s }}\" .",
                    "include \"none\" .",
                    "tpl .Values.s .",
                    "tpl \"{{ include `t` . }}\" $",
                    "tpl \"{{ define `t` }}new{{ end }}{{ template `t` }}\" .",
                ])
                .bytes(),
            ),
        },
        8 | 9 => return choice(c, out, scope, "if"),
        10 => return choice(c, out, scope, "with"),
        11 | 12 => return repetition(c, out, scope),
        13 => {
            out.extend(b"block \"u\" ");
            out.extend(expression_in(c, Kind::Any, 1, scope));
            close(c, out);
            let mut inner = Scope { variables: 0, loops: 0, depth: scope.depth };
            body(c, out, &mut inner);
            out.extend(b"{{ end");
        }
        _ => {
            let value = expression_in(c, Kind::Any, 2, scope);
            out.extend(pipeline(c, value));
        }
    }
    close(c, out);
}

/// An expression, perhaps piped through functions.
fn pipeline(c: &mut Choices, value: Vec<u8>) -> Vec<u8> {
    let mut out = value;
    while c.one_in(4) {
        let (name, parameters, _) = c.of(FUNCTIONS);
        if parameters.ends_with(['w', 'd']) {
            continue;
        }
        out.extend(b" | ");
        out.extend(name.bytes());
        let last = parameters.trim_end_matches('*').len().saturating_sub(1);
        arguments(c, &mut out, &parameters[..last], 1, 12);
    }
    out
}

/// Begins a declaration, perhaps; its variable can be used, and shadowed by itself, from then on.
fn declare(c: &mut Choices, out: &mut Vec<u8>, scope: &mut Scope) -> usize {
    if !c.one_in(3) {
        return 0;
    }
    out.extend(format!("$v{} := ", scope.variables).bytes());
    usize::from(!c.one_in(20))
}

fn choice(c: &mut Choices, out: &mut Vec<u8>, scope: &mut Scope, word: &str) {
    let variables = scope.variables;
    out.extend(format!("{word} ").bytes());
    let declared = declare(c, out, scope);
    let value = expression_in(c, Kind::Any, 2, scope);
    scope.variables += declared;
    out.extend(value);
    close(c, out);
    body(c, out, scope);
    if c.one_in(4) {
        open(c, out);
        out.extend(format!("else {word} ").bytes());
        out.extend(expression_in(c, Kind::Any, 1, scope));
        close(c, out);
        body(c, out, scope);
    }
    if c.one_in(3) {
        open(c, out);
        out.extend(b"else");
        close(c, out);
        body(c, out, scope);
    }
    scope.variables = variables;
    out.extend(b"{{ end }}");
}

fn repetition(c: &mut Choices, out: &mut Vec<u8>, scope: &mut Scope) {
    let variables = scope.variables;
    out.extend(b"range ");
    match c.below(4) {
        0 => {}
        1 => {
            out.extend(format!("$v{} := ", scope.variables).bytes());
            scope.variables += 1;
        }
        2 => {
            out.extend(format!("$v{}, $v{} := ", scope.variables, scope.variables + 1).bytes());
            scope.variables += 2;
        }
        _ if scope.variables > 0 => out.extend(format!("$v{} = ", c.below(scope.variables)).bytes()),
        _ => {}
    }
    // No number that is computed: it may be one that takes Go for ever.
    let kind = c.of(&[
        Kind::List,
        Kind::Map,
        Kind::Letter('w'),
        Kind::Letter('t'),
        Kind::Letter('N'),
        Kind::Text,
        Kind::Float,
        Kind::Version,
    ]);
    let value = expression_but(c, kind, 1, usize::MAX);
    out.extend(value);
    close(c, out);
    scope.loops += 1;
    body(c, out, scope);
    scope.loops -= 1;
    if c.one_in(4) {
        out.extend(b"{{ else }}");
        body(c, out, scope);
    }
    scope.variables = variables;
    out.extend(b"{{ end }}");
}

fn expression_in(c: &mut Choices, kind: Kind, depth: usize, scope: &Scope) -> Vec<u8> {
    if scope.variables > 0 && c.one_in(4) {
        let mut out = format!("$v{}", c.below(scope.variables)).into_bytes();
        if c.one_in(4) {
            out.extend(c.of(&[".a", ".name", ".b.c", ".missing"]).bytes());
        }
        return out;
    }
    expression(c, kind, depth)
}

/// An expression that can stand as an argument.
pub(super) fn expression(c: &mut Choices, kind: Kind, depth: usize) -> Vec<u8> {
    expression_but(c, kind, depth, 25)
}

/// The same, in one of `odd` cases of any other kind.
fn expression_but(c: &mut Choices, kind: Kind, depth: usize, odd: usize) -> Vec<u8> {
    // A moment of another kind is the current time.
    // A count of another kind may be one that takes Go for ever.
    let fixed = matches!(kind, Kind::Moment | Kind::Letter('w'));
    let kind = if !fixed && c.one_in(odd) { c.of(ANY) } else { kind };
    if depth > 0 && !fixed && c.one_in(3) {
        return call(c, kind, depth - 1);
    }
    match kind {
        Kind::Any => {
            let kind = c.of(ANY);
            expression_but(c, kind, depth, odd)
        }
        Kind::Int => c
            .of(&[
                "1",
                "0",
                "2",
                "-1",
                "3",
                "5",
                "10",
                "-3",
                ".Values.n",
                "(int 4)",
                "0x10",
                "'a'",
                "1_0",
                "(len .Values.l)",
                "0b11",
                "1e1",
                "0o7",
            ])
            .into(),
        Kind::Float => c
            .of(&[
                "1.5",
                "0.0",
                "-2.5",
                ".Values.h",
                "1e3",
                "1e6",
                "1.0",
                ".Values.big",
                "0.1",
                "1e-7",
                "123456789.0",
                "1e21",
                "0x1p-2",
                "2.5",
                "(float64 3)",
            ])
            .into(),
        Kind::Bool => c.of(&["true", "false", ".Values.t", ".Values.f", "(not 1)"]).into(),
        Kind::Text if c.one_in(5) => c
            .of(&[
                ".Values.s",
                ".Values.e",
                ".Values.uni",
                ".Release.Name",
                ".Chart.Name",
                "\"a\"",
                ".Template.Name",
            ])
            .into(),
        Kind::Text => {
            let text = text(c);
            literal(c, &text)
        }
        Kind::List => list(c, depth),
        // Copies: a map that comes to contain itself is the end of Go.
        Kind::Map => map(c, depth),
        Kind::Moment => {
            c.of(&["0", "1700000000", "(toDate \"2006-01-02\" \"2024-02-29\")", "(int64 86400)", "-1"]).into()
        }
        Kind::Version => c.of(&["(semver \"1.2.3\")", "(semver \"v1.2.3-rc.1+b\")", "(semver \"2\")"]).into(),
        Kind::Letter(letter) => lettered(c, letter),
    }
}

fn lettered(c: &mut Choices, letter: char) -> Vec<u8> {
    let text = match letter {
        'n' => {
            return c
                .of(&[
                    "1",
                    "2.5",
                    "0",
                    "-1",
                    "\"3\"",
                    "7",
                    "\"1.5\"",
                    "(int64 9)",
                    ".Values.n",
                    ".Values.big",
                    "true",
                    "nil",
                    "\"x\"",
                    "\"0x1F\"",
                    "\"010\"",
                    "9223372036854775807",
                    "1e6",
                    "0.1",
                    "-7",
                    "(float64 2)",
                    "\"1e3\"",
                    "\"1_0\"",
                ])
                .as_bytes()
                .to_vec();
        }
        'w' => return c.of(&["1", "0", "2", "-1", "3", "5", "-3", "10"]).as_bytes().to_vec(),
        'N' => {
            return c
                .of(&["nil", ".Values.missing", "(get .Values.m \"zz\")", "(dict)", "(list)", "\"\""])
                .as_bytes()
                .to_vec();
        }
        't' => {
            return c
                .of(&[
                    "(splitList \",\" \"b,a\")",
                    "(list \"x\" \"y\")",
                    ".Values.names",
                    "(splitList \",\" \"\")",
                    "(list \"a\" \"a\" \"\")",
                    "(sortAlpha .Values.names)",
                ])
                .as_bytes()
                .to_vec();
        }
        'D' => {
            return c
                .of(&[
                    "(mustToDuration \"90m\")",
                    "(durationRoundTo \"1h29m\" \"1h\")",
                    "(mustToDuration 1500)",
                ])
                .as_bytes()
                .to_vec();
        }
        'k' => c.of(&["a", "b", "c", "", "d", "k", "_0", "é", "a.b"]).to_owned(),
        'r' => {
            c.of(&["a", "[a-z]+", "(a)(b)?", "^.", "", "\\d", ".*", "(?i)WEB", "[", "a|b", "x*"]).to_owned()
        }
        'c' => c.of(&[">=1.0", "^1.2", "*", "~1.2.3", "<2 || >3", "x", "1.2 - 2.3"]).to_owned(),
        'v' => c.of(&["1.2.3", "v1", "1.2.3-rc.1", "x", "1.2", "1.2.3+b", ""]).to_owned(),
        'u' => c.of(&["90s", "1h30m", "1000h", "x", "", "-5m", "100", "1.5h"]).to_owned(),
        'L' => c.of(&["2006-01-02", "15:04:05 MST", "Jan _2 Mon", "x", ""]).to_owned(),
        'z' => c.of(&["UTC", "Europe/Berlin", "Nowhere", ""]).to_owned(),
        'y' => String::from_utf8_lossy(&yaml::document(c)).into_owned(),
        'j' => {
            let text = tree(c, 2).to_string();
            if c.one_in(3) {
                String::from_utf8_lossy(&mutate(
                    c,
                    text.into_bytes(),
                    &["{", "}", "[", "]", ",", ":", "\"", "nul", "1e", "\\u12", "\\x", "-", "0"],
                ))
                .into_owned()
            } else {
                text
            }
        }
        'o' => toml(c, false),
        // Not where `printf` sees it: Go shows what is inside of a time, with addresses.
        'O' => toml(c, true),
        'T' => {
            return c
                .of(&[
                    "\"{{ .Values.s }}\"",
                    "\"x\"",
                    "\"{{ . }}\"",
                    "\"{{ nope }}\"",
                    "\"{{ if\"",
                    "\"{{ .a.b }}\"",
                    "\"{{ fail `f` }}\"",
                    "\"{{ tpl `{{ .Values.n }}` $ }}\"",
                    "\"{{ upper 1 }}\"",
                    "\"{{ required `r` nil }}\"",
                ])
                .as_bytes()
                .to_vec();
        }
        'U' => c
            .of(&[
                "https://u:p@h:80/p?q=1#f",
                "h",
                "",
                "//h/p",
                "a:b",
                "http://[::1]:8/",
                "%zz",
                ":x",
                "http://h/%41?%zz",
                "mailto:a@b",
                "http://a b/",
                "/p?x#y",
                "http://h:p/",
            ])
            .to_owned(),
        'x' => c.of(&["aGVsbG8=", "", "!", "aGk", "/+8=", "-_8=", "aGk=\n", "NBUQ====", "/w=="]).to_owned(),
        'p' => c.of(&["a/b.c", "", "/", "../x", "a//b/./../c", "a.", ".b", "a/b/", "é/ü.txt"]).to_owned(),
        _ => unicode(c),
    };
    quoted(text.as_bytes())
}

/// A TOML document.
fn toml(c: &mut Choices, dates: bool) -> String {
    const LINES: &[&str] = &[
        "a = 1",
        "b = \"x\"",
        "c = 1.5",
        "[t]",
        "[t.u]",
        "[[l]]",
        "d = [1, 2]",
        "e = {x = 1}",
        "g = 'lit'",
        "h = \"\"\"\nm\"\"\"",
        "i = true",
        "a.b = 1",
        "\"q k\" = 1",
        "# c",
        "j = 0x1F",
        "k = 1_000",
        "l = inf",
        "m = [\"a\", 1]",
        "p = 1e3",
        "a = ",
        "= 1",
        "[",
        "q = \"\\u00e9\"",
        "r = 'a",
        "[t]",
        "s = -nan",
        "u = 01",
        "v = [[1], [\"a\"]]",
        "[a.b]",
        "w = \"\\x\"",
        "x = tru",
        "z = {a = 1, b = {c = 2}}",
        "aa = [\n1,\n2,\n]",
        "bb = '''\na'''",
        "cc = +1",
        "dd = .5",
        "ee = 1.",
        "ff = {",
        "hh = 9223372036854775808",
        "[[t]]",
        "ii = 0b11",
        "é = 1",
        "jj = \"a\nb\"",
    ];
    const DATES: &[&str] = &[
        "f = 2024-02-29T12:00:00Z",
        "n = 2024-02-29",
        "o = 12:30:00",
        "y = 2024-02-29 12:00:00",
        "gg = 2024-02-30",
    ];
    let mut out = String::new();
    for _ in 0..=c.below(4) {
        out += if dates && c.one_in(4) { c.of(DATES) } else { c.of(LINES) };
        out.push('\n');
    }
    out
}

fn list(c: &mut Choices, depth: usize) -> Vec<u8> {
    match c.below(6) {
        0 => c
            .of(&[
                ".Values.l",
                ".Values.names",
                ".Values.none",
                ".Values.mixed",
                ".Values.pods",
                "(until 3)",
                "(list)",
                "(list 1 2)",
                "(chunk 2 (list 1 2 3))",
                "(list nil)",
                "(list 1 \"a\" 2.5)",
            ])
            .into(),
        _ => {
            let mut out = b"(list".to_vec();
            for _ in 0..c.below(4) {
                out.push(b' ');
                out.extend(expression(c, Kind::Any, depth.min(1)));
            }
            out.push(b')');
            out
        }
    }
}

fn map(c: &mut Choices, depth: usize) -> Vec<u8> {
    match c.below(6) {
        0 => c
            .of(&[
                "(deepCopy .Values.m)",
                ".Values.em",
                "(dict)",
                "(dict \"a\" 1)",
                "(deepCopy .Values)",
                "(index .Values.pods 0)",
                "(dict \"a\" nil \"b\" (dict \"c\" 2))",
            ])
            .into(),
        _ => {
            let mut out = b"(dict".to_vec();
            for _ in 0..c.below(4) {
                out.push(b' ');
                out.extend(lettered(c, 'k'));
                out.push(b' ');
                out.extend(expression(c, Kind::Any, depth.min(1)));
            }
            out.push(b')');
            out
        }
    }
}

/// A call in parentheses that gives the kind.
fn call(c: &mut Choices, kind: Kind, depth: usize) -> Vec<u8> {
    let fitting: Vec<_> = FUNCTIONS.iter().filter(|f| kind == Kind::Any || Kind::of(f.2) == kind).collect();
    if fitting.is_empty() {
        return expression(c, kind, 0);
    }
    let (name, parameters, _) = *fitting[c.below(fitting.len())];
    let mut out = format!("({name}").into_bytes();
    arguments(c, &mut out, parameters, depth, 25);
    out.push(b')');
    if c.one_in(15) {
        out.extend(c.of(&[".a", ".b.c", ".Error", ".missing", ".Major", ".String"]).bytes());
    }
    out
}

fn arguments(c: &mut Choices, out: &mut Vec<u8>, parameters: &str, depth: usize, odd: usize) {
    let mut letters = parameters.chars().peekable();
    while let Some(letter) = letters.next() {
        let times = if letters.next_if_eq(&'*').is_some() { c.below(4) } else { 1 };
        // The number of arguments is wrong now and then.
        let times = if c.one_in(60) { c.below(3) } else { times };
        for _ in 0..times {
            out.push(b' ');
            out.extend(expression_but(c, Kind::of(letter), depth, odd));
        }
    }
}
