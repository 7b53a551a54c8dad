//! What has the everyday form is read as the real reader reads it, and most manifests have it.

use super::{fields, read};
use crate::data::Data;
use crate::yaml::head::{earnestly, head, of_lines};
use crate::yaml::sink::DataBuilder;

const DEPLOYMENT: &str = r#"# Source: a/b.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: a-b
  namespace: default
  labels:
    app.kubernetes.io/name: a
    helm.sh/chart: a-1.0.0
  annotations:
    checksum/config: 01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b
    "quoted key": x
    note: |-
      some: text
        # not a comment
      - no item

      end
spec:
  replicas: 1
  template:
    spec:
      containers:
      - name: a
        image: "registry/a:1.2.3"
        args:
        - --flag=1
        - -v
        - -
          x
        - 'single: quoted'
        - |
          #!/bin/sh
          	tab
          echo "a: b"
        env: []
        ports:
          - containerPort: 80
            name: http
          -   name: wide
              port: 1
          -
            name: below
        livenessProbe: {}
        description: a plain text that
          goes on (here) and

          "there" without end
      volumes:
      - - nested
        - more
# the end
status:
"#;

const EVERYDAY: [&str; 3] = [
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: |\n    é — ✓\n\n  b: >-\n    c\n  d:\n  e: 1e400\n  f: -1\n  g: +1x\n",
    "kind: A\nmetadata:\n  annotations:\n    a: y\n    b: 1.50\n    c: 012\n    d: null\nlist:\n- a\n-\n- b: |+\n\n    x\n\n\n- c\nKind: B\n",
    "metadata:\n  name: n\n# c\n  # d\nx: \n  y: # e\n    z: 1\n",
];

const VALUES: &str = r#"# Values of a chart.
---
## @param image
image:
  repository: docker.io/library/nginx   # comment
  tag: "1.29"
  'pull-policy': IfNotPresent
  digest: ""
  pullSecrets: []
replicas: 2
ratio: 0.5
mode: 0644
port: 8080
on: yes
off: No
nothing: ~
empty:
resources: {}
strategy:
  {}
flow: [a, "b c", 'it''s', 1, true, [2, 3], {k: v, "q": [x]}, null]
limits: { cpu: 100m, memory: "1Gi" }
args:
- --log=info
- "-v"
-
- - nested
  - 'x'
- name: a
  value: .5

  more:
  - :colon
  - 12:30:45
  - 2001-01-01
text: one
  two three

  four


last: true # yes
script: |
  #!/bin/sh
    echo "a: b" # no comment

  exit 0

strip: |-
  a

keep: |+
  a


8080: number
1.5: float
"quoted key": 18446744073709551615
deep:
  description:
    a scalar on its own line
    goes on
    --and on
  other: 'single: quoted'
  escaped: "a \"b\" \\ c\n\td"
  code: |

      first

      last
     # less deep
    # and less

  after: [{a: "\n"}]
  json: {"port":53,"name":"dns","list":[true,{"x":null}]}
  empty: |

  # nothing
  none: |-
  root: .
  .hidden: .5
  folded: >-

    one
    two

    three
   # less deep
  # 	tab
  clipped: >
    a

  kept: >+
    b

"#;

/// The same everyday parts in another text.
fn seeds() -> Vec<String> {
    let deployment = DEPLOYMENT.replace("        - -\n          x\n", "");
    EVERYDAY.iter().map(|t| (*t).to_owned()).chain([deployment, VALUES.to_owned()]).collect()
}

/// What the lines alone give.
fn quickly(text: &str) -> Option<Data> {
    let mut builder = DataBuilder::new();
    read(text.as_bytes(), &mut builder).map(|()| builder.finish())
}

/// What the real reader gives.
fn really(text: &str) -> Result<Data, String> {
    let mut builder = DataBuilder::new();
    let outcome =
        crate::yaml::read::read(text.as_bytes(), &mut builder, false).map_err(|e| format!("{e:?}"))?;
    if outcome.not_finite { Err("not finite".to_owned()) } else { Ok(builder.finish()) }
}

#[test]
fn values_are_those_of_the_reader() {
    let texts = [
        VALUES,
        "a: 1\n\n\nb: 2",
        "a: b\n\n  c\n",
        "- a\n- b: 1\n  c:\n  - d\n",
        "a: |\n\n  \n  b\n",
        "a: b\u{a0}c\u{fe0f}\u{fffd}\u{10ffff}\n",
        "a: |\nb: |-\n\nc: >-\n# d\n",
        "a: |\n  b\n\n\nc: |-\n  d\n\ne: |+\n  f\n\n# g\n",
        "a:\n  - b: [ ]\n    c: { }\n  -   d: \"\"\n      e: ''\n",
        "a: 0x1F\nb: 0b11\nc: 1_000\nd: 1e3\ne: 0o7\nf: 017\ng: +1\nh: 9223372036854775808\n",
        "y: n\nyes: NO\nTrue: Off\n1: a\n1.50: b\n0x10: c\n",
        "a: 1\na: 2\nb:\n  c: 1\nb:\n  d: 2\n",
    ];
    for text in texts {
        let quick = quickly(text).unwrap_or_else(|| panic!("not everyday: {text}"));
        assert_eq!(Ok(quick), really(text), "{text}");
    }
}

#[test]
fn everyday_manifests_are_known() {
    for text in seeds() {
        let lines = fields(text.as_bytes(), |key| key == b"kind").unwrap_or_else(|| panic!("{text}"));
        assert!(lines.len() < 40, "{}", String::from_utf8_lossy(&lines));
        assert_eq!(head(text.as_bytes()).unwrap(), earnestly(text.as_bytes()).unwrap());
    }
    assert_eq!(fields(DEPLOYMENT.as_bytes(), |_| true), None);
    assert_eq!(fields(b"- a\n", |_| true), None);
}

#[test]
fn other_texts_are_left_to_the_reader() {
    let texts = [
        "",
        " a: 1\n",
        "a: b: c\n",
        "a: [1\n",
        "a: [1,]\n",
        "a: [b c]\n",
        "a: [b: c]\n",
        "a: [b]c\n",
        "a: [b]#c\n",
        "a: {b}\n",
        "a: {b:c}\n",
        "a: {null: c}\n",
        "a: {1: c}\n",
        "a: \"b\"#c\n",
        "a: 'b\nc'\n",
        "a: 'b\n c\n",
        "a: \"b\n  \\e\"\n",
        "a:\nb\n",
        "a: ~ b\n",
        "a: b #c\n  d\n",
        "\"a\\n\": 1\n",
        "\"a\" : 1\n",
        "\"<<\": 1\n",
        "12345678901234567890: 1\n",
        "--- a\n",
        "---\n---\na: 1\n",
        "---\n# b\n---\na: 1\n",
        "a: 1\n---\n",
        "a: &x 1\n",
        "a: *x\n",
        "a: !!int 1\n",
        "a: .inf\n",
        "a: -.inf\n",
        "a: +.INF\n",
        "null: 1\n",
        "<<: {}\n",
        "a: 'b' c\n",
        "a: \"b\\x41\"\n",
        "a:\tb\n",
        "a: |2\n   b\n",
        "a: |\n   \n  b\n",
        "a: |\n    b\n  c\n",
        "a: 1\n  b: 2\n",
        "a:\n  b: 1\n c: 2\n",
        "a: 1\n- b\n",
        "a: - b\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n...\n",
        "a: b\u{85}c\n",
        "a: b\r\n",
        "a: \u{feff}\n",
        "? a\n",
        "a: @\n",
        "a: `b`\n",
        "a: b:\n",
        "a: \u{7f}\n",
        "a: b\n  # c\n  d\n",
    ];
    let long = format!("a: {{\"{}\": b}}\n", "k".repeat(300));
    for text in texts.into_iter().chain([long.as_str()]) {
        assert_eq!(fields(text.as_bytes(), |_| true), None, "{text:?}");
        assert_eq!(quickly(text), None, "{text:?}");
    }
}

/// Changes everyday texts at random: what still has the form must be read without an error, and its head must be the same.
#[test]
fn the_form_is_never_told_of_what_the_reader_refuses() {
    const PIECES: [&str; 50] = [
        " ", "  ", "\n", "\n\n", ":", ": ", ":\n", "-", "- ", "-\n", "#", " #", "|", "|\n", ">-\n", "\"",
        "'", "''", "\\", "[", "]", "{", "}", "[]", "{}", ",", "&a ", "*a", "!", "%", "@", "`", "~", "?",
        "? ", ".", "\t", "a", "0", "null", "<<", "é", "---\n", "=", "[a, ", "{b: ", "\"c\": ", " # d", "\\n",
        "\\\"",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    let seeds = seeds();
    let (mut yes, mut read_all) = (0, 0);
    for _ in 0..60_000 {
        let mut text: Vec<char> = seeds[next(seeds.len())].chars().collect();
        // A window, so that changes meet.
        let from = next(text.len());
        let at = text[from..].iter().position(|c| *c == '\n').map_or(0, |n| from + n + 1);
        text.drain(..at.min(text.len()));
        text.truncate(120 + next(400));
        for _ in 0..=next(4) {
            let at = next(text.len() + 1);
            match next(5) {
                0 => drop(text.splice(at..at, PIECES[next(PIECES.len())].chars())),
                1 => drop(text.drain(at..(at + 1 + next(3)).min(text.len()))),
                2 => {
                    let line = text[..at].iter().rposition(|c| *c == '\n').map_or(0, |n| n + 1);
                    text.splice(line..line, " ".repeat(1 + next(4)).chars()).for_each(drop);
                }
                3 => {
                    let line = text[..at].iter().rposition(|c| *c == '\n').map_or(0, |n| n + 1);
                    let more = text[line..].iter().take_while(|c| **c == ' ').count();
                    text.drain(line..line + more.min(1 + next(4)));
                }
                _ => {
                    let end = text[at..].iter().position(|c| *c == '\n').map_or(text.len(), |n| at + n);
                    text.drain(at..end);
                }
            }
        }
        let text: String = text.into_iter().collect();
        let quick = fields(text.as_bytes(), |key| {
            [&b"apiVersion"[..], b"kind", b"metadata"].iter().any(|f| key.eq_ignore_ascii_case(f))
        });
        if let Some(data) = quickly(&text) {
            read_all += 1;
            assert_eq!(Ok(data), really(&text), "{text}");
        }
        if let Some(lines) = quick {
            yes += 1;
            match (earnestly(text.as_bytes()), of_lines(&lines)) {
                (Ok(all), Ok(own)) => assert_eq!(own, all, "{text}"),
                // A head that is wrong is told by the real reader.
                (Err(all), Err(own)) => assert_eq!(own.problem(), all.problem(), "{text}"),
                (all, own) => panic!("{all:?} {own:?} {text}"),
            }
        }
    }
    assert!(yes > 5_000, "{yes} texts of 60,000 had the form");
    assert!(read_all > 3_000, "{read_all} texts of 60,000 were read");
}
