//! Helm 4.3's results for expressions of every family, recorded with TZ=UTC.

use crate::chart::{File, load_files};
use crate::data::{Data, Map};
use crate::profile::Profile;
use crate::render::{Capabilities, CompiledChart, Options, Release};
use crate::template::Limits;
use crate::world::{KeyKind, Timestamp, World};

/// A world with fixed results. Its keys have a valid format; its signatures are not checked here.
struct Fixed;

impl World for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 1_700_000_000, nanos: 0 }
    }

    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn random(&self, bytes: &mut [u8]) {
        for (i, b) in (0u8..=255).cycle().zip(bytes) {
            *b = i.wrapping_mul(37).wrapping_add(11);
        }
    }

    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        Err(format!("no {kind:?} key here"))
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("nothing is signed here".to_owned())
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Ok(Data::Map(Map::new()))
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

/// Renders one expression through a chart, as users call the functions.
fn render(expression: &str) -> Result<String, String> {
    let text = "{{ range $e := .Values.e }}\nv: {{ tpl $e $ | toJson }}\n{{ end }}\n";
    let files = vec![
        File::new("Chart.yaml".to_owned(), b"apiVersion: v2\nname: sx\nversion: 0.1.0\n".to_vec()),
        File::new("templates/x.yaml".to_owned(), text.as_bytes().to_vec()),
    ];
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).map_err(|e| e.to_string())?;
    let user = Map::from([("e".to_owned(), Data::List(vec![Data::String(expression.to_owned())]))]);
    let options = Options {
        release: Release {
            name: "rel".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    let rendered = compiled.render(&user, &options, &Fixed, &mut |_| {}).map_err(|e| e.to_string())?;
    let line = rendered.manifests[0].text.lines().next().unwrap_or_default().to_owned();
    match crate::json::from_slice(line.trim_start_matches("v: ").as_bytes()) {
        Ok(Data::String(s)) => Ok(s),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn functions_answer_as_in_helm() {
    let mut wrong = Vec::new();
    for (expression, want) in TABLE {
        match render(expression) {
            Ok(got) if got == *want => {}
            got => wrong.push(format!("{expression}\n  helm {want:?}\n  ours {got:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn errors_are_helms() {
    let table = [
        ("{{ fail \"no\" }}", "execution error at (sx/templates/x.yaml:2:6): no"),
        ("{{ required \"need\" .Values.q }}", "execution error at (sx/templates/x.yaml:2:6): need"),
        ("{{ upper 5 }}", "at <5>: expected string; found 5"),
        ("{{ nindent 1.5 \"x\" }}", "expected integer; found 1.5"),
        ("{{ eq 1 1.0 }}", "error calling eq: incompatible types for comparison: int and float64"),
        ("{{ index (list 1) 5 }}", "error calling index: index out of range: 5"),
        ("{{ .Values.a.b.c }}", "nil pointer evaluating interface {}.b"),
        ("{{ replace \"a\" }}", "wrong number of args for replace: want 3 got 1"),
        ("{{ nope }}", "function \"nope\" not defined"),
        ("{{ include \"q\" . }}", "no template \"q\" associated with template \"gotpl\""),
        ("{{ if }}", "missing value for if"),
        ("{{ $x }}", "undefined variable \"$x\""),
        ("{{ range 1.5 }}{{ end }}", "range can't iterate over 1.5"),
        ("{{ mustRegexMatch \"(\" \"x\" }}", "error parsing regexp: missing closing ): `(`"),
        ("{{ semverCompare \"a\" \"1.0\" }}", "improper constraint: \"a\""),
    ];
    for (expression, want) in table {
        match render(expression) {
            Err(text) => assert!(text.contains(want), "{expression}: {text}"),
            Ok(text) => panic!("{expression} gave {text:?}"),
        }
    }
}

/// Expressions and Helm's results.
const TABLE: &[(&str, &str)] = &[
    (
        r#"{{ upper "aß" }}|{{ title "o'neil foo-bar" }}|{{ trunc -3 "hello" }}|{{ substr 1 -1 "hello" }}"#,
        r#"Aß|O'Neil Foo-Bar|llo|ello"#,
    ),
    (r#"{{ abbrev 5 "hello world" }} {{ abbrevboth 5 10 "1234 5678 9123" }}"#, r#"he... ...5678..."#),
    (
        r#"{{ snakecase "HTTPServer" }} {{ camelcase "http_server" }} {{ kebabcase "FirstName" }} {{ swapcase "aBc" }}"#,
        r#"http_server HttpServer first-name AbC"#,
    ),
    (
        r#"{{ initials "First Try" }} {{ nospace "a b c" }} {{ wrap 5 "hello world foo" }} {{ wrapWith 5 "--" "hello world" }}"#,
        r#"FT abc hello
world
foo hello--world"#,
    ),
    (
        r#"{{ quote "a\"b" 1 nil "é" }} {{ squote "a'b" 2 }} {{ cat "a" 1 nil 2.5 }}"#,
        r#""a\"b" "1" "é" 'a'b' '2' a 1 2.5"#,
    ),
    (
        r#"{{ indent 2 "a\n\nb" }}{{ nindent 3 "x" }}"#,
        r#"  a
  
  b
   x"#,
    ),
    (
        r#"{{ plural "one" "many" 2 }} {{ repeat 3 "ab" }} {{ trimAll "$" "$5$" }} {{ trimSuffix "-" "a-" }} {{ untitle "Foo Bar" }}"#,
        r#"many ababab 5 a foo bar"#,
    ),
    (
        r#"{{ default "d" "" }} {{ default "d" 0 }} {{ coalesce nil "" 0 "x" }} {{ ternary 1 2 true }} {{ empty (list) }} {{ all 1 "" }} {{ any 0 "x" }}"#,
        r#"d d x 1 true false true"#,
    ),
    (
        r#"{{ int "0x1F" }} {{ int "010" }} {{ int 1.9 }} {{ int "1.0" }} {{ int "x" }} {{ int64 true }} {{ float64 "1e3" }} {{ atoi "08" }} {{ toDecimal 777 }}"#,
        r#"31 8 1 1 0 1 1000 8 511"#,
    ),
    (
        r#"{{ add 1.9 1.9 }} {{ sub 5 2 }} {{ mul 2 3 4 }} {{ div 7 2 }} {{ mod 7 3 }} {{ max 1 5 3 }} {{ min 1 5 3 }} {{ maxf 1.5 3 }} {{ add1 2 }}"#,
        r#"2 3 24 3 1 5 1 3 3"#,
    ),
    (
        r#"{{ addf 0.1 0.2 }} {{ subf 1 0.9 }} {{ mulf 1.5 2 }} {{ divf 1 3 }} {{ floor 1.9 }} {{ ceil 1.1 }} {{ round 1.005 2 }} {{ round -2.4 0 }}"#,
        r#"0.3 0.1 3 0.3333333333333333 1 2 1 -3"#,
    ),
    (
        r#"{{ until 3 }} {{ until -2 }} {{ untilStep 3 9 3 }} {{ seq 1 2 7 }} {{ seq 3 }}"#,
        r#"[0 1 2] [0 -1] [3 6] 1 3 5 7 1 2 3"#,
    ),
    (
        r#"{{ list 1 2 3 | rest }} {{ first (list 1 2) }} {{ last (list 1 2) }} {{ initial (list 1 2 3) }} {{ append (list 1) 2 }} {{ prepend (list 1) 0 }} {{ reverse (list 1 2) }} {{ uniq (list 1 1 2) }} {{ without (list 1 2 3) 2 }} {{ has 2 (list 1 2) }} {{ has 2.0 (list 1 2) }} {{ slice (list 1 2 3 4) 1 3 }} {{ concat (list 1) (list 2) }} {{ compact (list 0 1 "" "a") }} {{ chunk 2 (list 1 2 3) }}"#,
        r#"[2 3] 1 2 [1 2] [1 2] [0 1] [2 1] [1 2] [1 3] true false [2 3] [1 2] [1 a] [[1 2] [3]]"#,
    ),
    (
        r#"{{ sortAlpha (list "b" "a" 3) }} {{ join "," (list 1 "a" nil) }} {{ splitList "," "a,b" }} {{ split "," "a,b" }} {{ splitn "," 2 "a,b,c" }} {{ toStrings (list 1 2.5) }}"#,
        r#"[3 a b] 1,a [a b] map[_0:a _1:b] map[_0:a _1:b,c] [1 2.5]"#,
    ),
    (
        r#"{{ $d := dict "a" 1 "b" (dict "c" 2) }}{{ set $d "z" 3 | toJson }} {{ unset $d "z" | toJson }} {{ hasKey $d "a" }} {{ get $d "q" }}. {{ dig "b" "c" 9 $d }} {{ dig "b" "x" 9 $d }} {{ pick $d "a" | toJson }} {{ omit $d "a" | toJson }} {{ keys $d | sortAlpha }} {{ pluck "a" $d (dict "a" 5) }} {{ len (values $d) }}"#,
        r#"{"a":1,"b":{"c":2},"z":3} {"a":1,"b":{"c":2}} true . 2 9 {"a":1} {"b":{"c":2}} [a b] [1 5] 2"#,
    ),
    (
        r#"{{ merge (dict "a" 1 "b" "") (dict "b" 2 "c" 3) | toJson }} {{ mergeOverwrite (dict "a" 1 "m" (dict "x" 1)) (dict "a" 0 "m" (dict "y" 2)) | toJson }} {{ deepCopy (dict "a" (list 1)) | toJson }} {{ deepEqual (list 1) (list 1) }}"#,
        r#"{"a":1,"b":2,"c":3} {"a":0,"m":{"x":1,"y":2}} {"a":[1]} true"#,
    ),
    (
        r#"{{ typeOf 1 }} {{ typeOf (list) }} {{ typeOf (dict) }} {{ kindOf 1.5 }} {{ kindIs "map" (dict) }} {{ typeIs "string" "x" }} {{ typeOf nil }} {{ typeOf (splitList "," "a") }}"#,
        r#"int []interface {} map[string]interface {} float64 true true <nil> []string"#,
    ),
    (
        r#"{{ toYaml (dict "b" (list 1 "y" 1.5) "a" (dict) "t" "true" "n" "010") }}"#,
        r#"a: {}
b:
- 1
- "y"
- 1.5
"n": "010"
t: "true""#,
    ),
    (
        r##"{{ toYaml (list "a: b" "- x" "#" "a\nb\n" "é" "😀" "1e3" "") }}"##,
        r#"- 'a: b'
- '- x'
- '#'
- |
  a
  b
- é
- "\U0001F600"
- "1e3"
- """#,
    ),
    (
        r#"{{ toYamlPretty (dict "a" (list 1 2)) }}"#,
        r#"a:
  - 1
  - 2"#,
    ),
    (
        r#"{{ fromYaml "a: 1\nb: [x, y]" | toJson }} {{ fromYamlArray "- 1\n- a" | toJson }} {{ fromYaml "a: b: c" | toJson }} {{ fromJson "{\"a\":[1,2.5]}" | toYaml }} {{ fromJsonArray "[1,\"x\"]" }} {{ (fromJson "{").Error }}"#,
        r#"{"a":1,"b":["x",true]} [1,"a"] {"Error":"error converting YAML to JSON: yaml: mapping values are not allowed in this context"} a:
- 1
- 2.5 [1 x] unexpected end of JSON input"#,
    ),
    (
        r#"{{ toJson (dict "a" "<&>" "b" 1e21 "c" 1e-7) }} {{ toPrettyJson (dict "a" (list 1)) }} {{ toRawJson (dict "a" "<") }}"#,
        r#"{"a":"\u003c\u0026\u003e","b":1e+21,"c":1e-7} {
  "a": [
    1
  ]
} {"a":"<"}"#,
    ),
    (
        r#"{{ toToml (dict "a" 1 "s" (dict "x" "y" "f" 1.0) "l" (list 1 2)) }}{{ fromToml "a = 1\n[s]\nx = \"y\"" | toJson }}"#,
        r#"a = 1
l = [1, 2]

[s]
  f = 1.0
  x = "y"
{"a":1,"s":{"x":"y"}}"#,
    ),
    (
        r#"{{ b64enc "hi" }} {{ b64dec "aGk=" }} {{ b64dec "!" }} {{ b32enc "hi" }} {{ b32dec "NBUQ====" }} {{ sha1sum "a" }} {{ sha256sum "a" }} {{ sha512sum "a" | trunc 16 }} {{ adler32sum "abc" }}"#,
        r#"aGk= hi illegal base64 data at input byte 0 NBUQ==== hi 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8 ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb 1f40fc92da241694 38600999"#,
    ),
    (
        r#"{{ regexMatch "^a.c$" "abc" }} {{ regexFind "[a-z]+" "12ab3" }} {{ regexFindAll "[0-9]" "a1b2c3" 2 }} {{ regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W" }} {{ regexReplaceAll "a(x*)b" "-ab-axxb-" "$1W" }} {{ regexReplaceAllLiteral "a" "banana" "$1" }} {{ regexSplit "z+" "pizza" -1 }} {{ regexQuoteMeta "a.b*" }} {{ regexMatch "\\d+\\s\\w" "12 é" }} {{ regexMatch "(" "x" }} {{ regexFind "(?i)HELLO|x" "say hello" }} {{ regexReplaceAll "(?m)^" "a\nb" "> " }}"#,
        r#"true ab [1 2] -W-xxW- --- b$1n$1n$1 [pi a] a\.b\* false false hello > a
> b"#,
    ),
    (
        r#"{{ semverCompare ">=1.20-0" "v1.31.0" }} {{ semverCompare "^1.2" "1.9.0" }} {{ (semver "1.2.3-rc.1+b5").Prerelease }} {{ (semver "v1.2").Minor }} {{ semver "1.2" }}"#,
        r#"true true rc.1 2 1.2.0"#,
    ),
    (
        r#"{{ base "a/b.c" }} {{ dir "a/b/c" }} {{ ext "a.tar.gz" }} {{ clean "a//b/../c" }} {{ isAbs "/a" }} {{ osBase "x/y" }}"#,
        r#"b.c a/b .gz a/c true y"#,
    ),
    (
        r#"{{ date "2006-01-02T15:04:05Z07:00" 0 }} {{ dateInZone "Mon Jan _2 15:04:05.000 MST 2006" 86400 "America/New_York" }} {{ htmlDate 1700000000 }} {{ (toDate "2006-01-02" "2024-02-29").Unix }} {{ dateModify "-1.5h" (toDate "2006-01-02" "2024-02-29") | date "15:04" }} {{ duration "95" }} {{ durationRound "2h10m5s" }} {{ ago (toDate "2006" "x") | trunc 3 }} {{ unixEpoch (toDate "2006-01-02" "1970-01-02") }}"#,
        r#"1970-01-01T00:00:00Z Thu Jan  1 19:00:00.000 EST 1970 2023-11-14 1709164800 22:30 1m35s 2h 256 86400"#,
    ),
    (
        r#"{{ urlParse "http://u:p@h:8/p?q=1#f" | toJson }} {{ urlJoin (dict "scheme" "https" "host" "h" "path" "/p" "query" "a=b") }}"#,
        r#"{"fragment":"f","host":"h:8","hostname":"h","opaque":"","path":"/p","query":"q=1","scheme":"http","userinfo":"u:p"} https://h/p?a=b"#,
    ),
    (
        r#"{{ derivePassword 1 "long" "password" "user" "example.com" }} {{ decryptAES "k" (encryptAES "k" "plain") }} {{ len (randAlphaNum 7) }} {{ len uuidv4 }} {{ regexMatch "^\\$2a\\$10\\$" (bcrypt "x") }} {{ hasPrefix "u:$2a$" (htpasswd "u" "p") }}"#,
        r#"ZedaFaxcZaso9* plain 7 36 true true"#,
    ),
    (
        r#"{{ printf "%d %5.2f %q %v %T %x %03d|%-4s|%t %c %U" 1 3.14159 "x" (list 1 "a" nil) 1.5 "hi" 7 "a" true 65 128512 }} {{ print 1 2 "a" 3 }} {{ println "x" }}{{ printf "%s %d" 5 "a" }} {{ printf "%!" }} {{ printf "%d" }}"#,
        r#"1  3.14 "x" [1 a <nil>] float64 6869 007|a   |true A U+1F600 1 2a3 x
%!s(int=5) %!d(string=a) %!!(MISSING) %!d(MISSING)"#,
    ),
    (
        r#"{{ 1000000.0 }} {{ 1e3 }} {{ 0x1F }} {{ 'a' }} {{ 1_000 }} {{ 123456789.0 }} {{ 0.00001 }} {{ list 1.5 nil "a" }} {{ dict "b" 1 "a" (list) }}"#,
        r#"1e+06 1000 31 97 1000 1.23456789e+08 1e-05 [1.5 <nil> a] map[a:[] b:1]"#,
    ),
    (
        r#"{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }} {{ range $i, $v := list "a" "b" }}{{ if eq $i 1 }}{{ break }}{{ end }}{{ $v }}{{ end }} {{ with "" }}a{{ else with 5 }}{{ . }}{{ end }} {{ range 3 }}{{ . }}{{ else }}n{{ end }} {{ define "t" }}[{{ . }}]{{ end }}{{ template "t" 5 }}{{ include "t" 6 }} {{ block "u" 7 }}<{{ . }}>{{ end }} {{- " x " -}} y"#,
        r#"2 a 5 012 [5][6] <7> x y"#,
    ),
    (
        r#"{{ eq 1 1 2 }} {{ eq "a" "b" "a" }} {{ lt 1.5 2.5 }} {{ and 1 0 2 }} {{ or 0 "" "x" }} {{ not 0 }} {{ index (dict "a" (list 1 2)) "a" 1 }} {{ len "é" }} {{ html "<a&'>" }} {{ js "it's" }} {{ urlquery "a b&c" }} {{ len (list 1 2) }}"#,
        r#"true true true 0 x true 2 2 &lt;a&amp;&#39;&gt; it\'s a+b%26c 2"#,
    ),
    (
        r#"{{ .Values.nope }}x{{ (.Values.nope).deeper }}y {{ hasKey .Values "zz" }} {{ typeOf .Values }} {{ .Values.AsMap | len }} {{ tpl "{{ .Release.Name }}{{ .Values.nope }}" . }} {{ required "m" "v" }} {{ lookup "v1" "Pod" "a" "b" }} {{ getHostByName "x" }}."#,
        r#"xy false common.Values 1 rel v map[] ."#,
    ),
    (
        r#"{{ durationSeconds "90s" }} {{ durationHours "90m" }} {{ durationRoundTo "1h29m" "1h" }} {{ mustToDuration "1m30s" }} {{ mustToYaml (list 1) }} {{ toString 1.0 }} {{ toString nil }} {{ kindOf (now) }} {{ mustRegexMatch "a" "a" }}"#,
        r#"90 1.5 1h0m0s 1m30s - 1 1 <nil> struct true"#,
    ),
];
