//! Whole charts: metadata, dependencies with all that switches and moves them, values on every level, templates that look at
//! each other's values, resources and hooks.
//!
//! Names are few, so that what one file says is what another one talks of.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::choices::Choices;

type Files = BTreeMap<String, String>;

/// Names of subcharts, which are keys of values too.
const NAMES: &[&str] = &["a", "b", "c-d"];
const KEYS: &[&str] =
    &["x", "a", "y", "b", "global", "c-d", "tags", "on", "exports", "data", "l", "z.w", "alias", "al", "zw"];
const PATHS: &[&str] = &[
    "x", "a", "a.x", "on", "b", "a.on", "global.x", "data", "y", "exports", "a.b.x", "tags.x", "", "l", "b.a",
];

/// What `Chart.yaml` may say beside its name, in JSON.
const METADATA: &[(&str, &str)] = &[
    ("appVersion", "\"1.0\""),
    ("appVersion", "\"\""),
    ("description", "\"d\""),
    ("description", "\"a\\u00a0b \\u0007\""),
    ("keywords", "[\"k\", \"l\"]"),
    ("keywords", "[]"),
    ("keywords", "null"),
    ("annotations", "{\"x\": \"1\", \"k/v\": \"w\"}"),
    ("annotations", "{}"),
    ("annotations", "null"),
    ("maintainers", "[{\"name\": \"m\", \"email\": \"e\", \"url\": \"u\"}]"),
    ("maintainers", "[]"),
    ("type", "\"library\""),
    ("type", "\"application\""),
    ("type", "\"\""),
    ("kubeVersion", "\">=1.20.0-0\""),
    ("kubeVersion", "\"*\""),
    ("kubeVersion", "\"\""),
    ("deprecated", "true"),
    ("home", "\"h\""),
    ("home", "null"),
    ("sources", "[\"s\", \"\\u0001t\"]"),
    ("icon", "\"i\""),
    ("tags", "\"x,y\""),
    ("condition", "\"a.on\""),
    ("unknown", "{\"x\": []}"),
    ("version", "\"1\""),
    ("version", "\"v1.2.3\""),
    ("AppVersion", "2.10"),
    ("DESCRIPTION", "true"),
    ("Keywords", "[1, null]"),
];

/// What is mostly refused.
const ODD_METADATA: &[(&str, &str)] = &[
    ("apiVersion", "\"v3\""),
    ("apiVersion", "\"\""),
    ("apiVersion", "\"v4\""),
    ("name", "\"\""),
    ("name", "\"a/b\""),
    ("name", "\".\""),
    ("version", "\"1.x\""),
    ("version", "\"x\""),
    ("version", "\"\""),
    ("type", "\"other\""),
    ("kubeVersion", "\"<1.10\""),
    ("kubeVersion", "\"oops\""),
    ("maintainers", "[null]"),
    ("maintainers", "[{\"name\": \"\"}]"),
    ("dependencies", "[null]"),
    ("dependencies", "{}"),
];

/// The files of a chart, as a map in JSON.
pub(crate) fn chart(c: &mut Choices) -> Vec<u8> {
    let mut files = Files::new();
    one(c, "", "probe", 2, &mut files);
    if c.one_in(40) {
        let victims: Vec<String> = files.keys().cloned().collect();
        if let Some(text) = files.get_mut(&victims[c.below(victims.len())]) {
            let damaged = super::damaged(c, std::mem::take(text).into_bytes());
            *text = String::from_utf8_lossy(&damaged).into_owned();
        }
    }
    let all: Map<String, Value> = files.into_iter().map(|(name, text)| (name, text.into())).collect();
    Value::Object(all).to_string().into_bytes()
}

/// Values as a user gives them.
pub(crate) fn user_values(c: &mut Choices) -> Value {
    Value::Object(table(c, 3))
}

/// A chart below `at`, with those below it.
fn one(c: &mut Choices, at: &str, name: &str, depth: usize, files: &mut Files) {
    let mut below = Vec::new();
    if depth > 0 {
        for name in NAMES {
            if c.one_in(2) {
                // A chart in a directory of another name.
                let directory = if c.one_in(12) { "other" } else { name };
                let version = c.of(&["1.2.3", "0.1.0", "2.0.0-rc.1"]);
                one(c, &format!("{at}charts/{directory}/"), name, depth - 1, files);
                below.push((*name, version));
            }
        }
    }
    let mut metadata = metadata(c, name);
    let mut requirements = None;
    if !below.is_empty() && !c.one_in(4) {
        let dependencies = Value::Array(dependencies(c, &below));
        if metadata["apiVersion"] == "v2" || c.one_in(8) {
            metadata["dependencies"] = dependencies;
        } else {
            requirements = Some(json!({ "dependencies": dependencies }));
        }
    }
    files.insert(format!("{at}Chart.yaml"), written(c, &metadata));
    if requirements.is_none() && !below.is_empty() && c.one_in(20) {
        requirements = Some(json!({ "dependencies": dependencies(c, &below) }));
    }
    if let Some(requirements) = requirements {
        files.insert(format!("{at}requirements.yaml"), written(c, &requirements));
    }
    if !c.one_in(5) {
        let values = Value::Object(table(c, 3));
        let mut text = written(c, &values);
        if c.one_in(12) {
            let more = Value::Object(table(c, 2));
            text += &format!(
                "{}{}",
                c.of(&["---\n", "--- # c\n", "---", "--- \n---\n", "...\n---\n"]),
                written(c, &more)
            );
        }
        files.insert(format!("{at}values.yaml"), text);
    }
    if c.one_in(80) {
        files.insert(format!("{at}values.schema.json"), schema(c).to_string());
    }
    if c.one_in(6) {
        let text = c.of(&["one: {{ .x }}\n", "", "a\nb", "{\"k\": [1]}\n"]);
        files.insert(format!("{at}{}", c.of(&["f.txt", "conf/g.yaml"])), text.to_owned());
    }
    if c.one_in(10) {
        let text = "apiVersion: v1\nkind: CustomResourceDefinition\nmetadata: {name: d}\n";
        files.insert(
            format!("{at}crds/{}", c.of(&["d.yaml", "sub/e.yaml", "f.json", "g.txt"])),
            text.to_owned(),
        );
    }
    if c.one_in(2) {
        files.insert(format!("{at}templates/_h.tpl"), helpers(c));
    }
    for file in ["templates/a.yaml", "templates/b.yaml", "templates/sub/a.yaml", "templates/z.yml"] {
        if c.one_in(2) || file == "templates/b.yaml" {
            files.insert(format!("{at}{file}"), resources(c));
        }
    }
    if c.one_in(6) {
        let name = c.of(&["NOTES.txt", "NOTES.txt", "sub/NOTES.txt", "MORENOTES.txt"]);
        files.insert(format!("{at}templates/{name}"), format!("{{{{ {} }}}}", shown(c)));
    }
}

/// As YAML: JSON is that too.
fn written(c: &mut Choices, value: &Value) -> String {
    match c.below(3) {
        0 => value.to_string(),
        1 => format!("{value:#}\n"),
        _ => blocks(value, 0),
    }
}

/// In blocks, one key a line.
fn blocks(value: &Value, indent: usize) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .map(|(key, value)| {
                let key = Value::from(key.as_str());
                let pad = " ".repeat(indent);
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        format!("{pad}{key}:\n{}", blocks(value, indent + 2))
                    }
                    _ => format!("{pad}{key}: {value}\n"),
                }
            })
            .collect(),
        other => format!("{}{other}\n", " ".repeat(indent)),
    }
}

fn metadata(c: &mut Choices, name: &str) -> Value {
    let mut all = json!({
        "apiVersion": if c.one_in(5) { "v1" } else { "v2" },
        "name": name,
        "version": c.of(&["1.2.3", "0.1.0", "2.0.0-rc.1"]),
    });
    let more = if c.one_in(3) { c.below(5) } else { 0 };
    for _ in 0..more {
        let (key, value) = c.of(METADATA);
        all[key] = parsed(value);
    }
    if c.one_in(250) {
        let (key, value) = c.of(ODD_METADATA);
        all[key] = parsed(value);
    }
    if c.one_in(250) {
        all[c.of(METADATA).0] = scalar(c);
    }
    all
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn dependencies(c: &mut Choices, below: &[(&str, &str)]) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, version) in below {
        // One that is there, but not asked for; one that is asked for twice.
        let times = match c.below(40) {
            36..39 => 0,
            39 => 2,
            _ => 1,
        };
        for _ in 0..times {
            let mut one = json!({"name": name, "version": if c.one_in(12) { *version } else { c.of(&["", ">=0.0.0-0", "*", "1.x"]) }, "repository": ""});
            if c.one_in(3) {
                let paths: Vec<&str> = (0..=c.below(2)).map(|_| c.of(PATHS)).collect();
                one["condition"] = paths.join(",").into();
            }
            if c.one_in(4) {
                one["tags"] = (0..=c.below(2)).map(|_| c.of(&["x", "y", "on"])).collect::<Vec<_>>().into();
            }
            if c.one_in(4) {
                one["alias"] = match c.below(30) {
                    28 => "b",
                    29 => "a/b",
                    27 => "",
                    n if n < 12 => {
                        if *name == "a" {
                            "alias"
                        } else {
                            name
                        }
                    }
                    _ => match *name {
                        "a" => "x",
                        "b" => "al",
                        _ => "zw",
                    },
                }
                .into();
            }
            if c.one_in(3) {
                one["import-values"] = (0..=c.below(2)).map(|_| import(c)).collect::<Vec<_>>().into();
            }
            if c.one_in(15) {
                one["enabled"] = c.of(&[true, false]).into();
            }
            all.push(one);
        }
    }
    if c.one_in(200) {
        all.push(Value::Null);
    }
    all
}

fn import(c: &mut Choices) -> Value {
    match c.below(8) {
        0..=3 => c.of(&["data", "x", "a", "y", "z.w", ""]).into(),
        4..=6 => {
            json!({"child": c.of(PATHS), "parent": c.of(&["x", ".", "a", "data.x", "global", "y.a", "", "b"])})
        }
        _ => match c.below(4) {
            0 => json!({"child": c.of(PATHS)}),
            1 => json!({"child": 1, "parent": "x"}),
            2 => json!(1),
            _ => json!({"child": "exports.data", "parent": "x"}),
        },
    }
}

fn scalar(c: &mut Choices) -> Value {
    match c.below(10) {
        0 | 1 => c.of(&["s", "t", "", "1", "true", "{{ .Values.x }}"]).into(),
        2 => 1.into(),
        3 => c.of(&[true, false]).into(),
        4 => Value::Null,
        5 => json!(1.5),
        6 => json!([]),
        7 => json!([1, {"x": null}, "s"]),
        8 => json!({}),
        _ => 12_345_678.into(),
    }
}

fn table(c: &mut Choices, depth: usize) -> Map<String, Value> {
    (0..c.below(6))
        .map(|_| {
            let key = c.of(KEYS);
            let value = match key {
                // What is to be a table mostly is one.
                "a" | "b" | "c-d" | "global" | "exports" | "data" | "alias" if depth > 0 && !c.one_in(8) => {
                    Value::Object(table(c, depth - 1))
                }
                "on" if !c.one_in(10) => c.of(&[true, false]).into(),
                "tags" if !c.one_in(6) => json!({"x": c.one_in(2), c.of(&["y", "on"]): scalar(c)}),
                _ if depth > 0 && c.one_in(3) => Value::Object(table(c, depth - 1)),
                _ => scalar(c),
            };
            (key.to_owned(), value)
        })
        .collect()
}

fn schema(c: &mut Choices) -> Value {
    let of = |c: &mut Choices| json!({"type": c.of(&["object", "string", "number", "boolean", "array", "null", "integer"])});
    let mut properties = Map::new();
    for _ in 0..=c.below(2) {
        properties.insert(c.of(KEYS).to_owned(), of(c));
    }
    let mut all = json!({ "properties": properties });
    if c.one_in(3) {
        all["required"] = json!([c.of(KEYS)]);
    }
    if c.one_in(4) {
        all["additionalProperties"] = of(c);
    }
    if c.one_in(4) {
        all["type"] = "object".into();
    }
    all
}

fn helpers(c: &mut Choices) -> String {
    let mut out = String::new();
    for name in ["t", "u", "a.t"] {
        if c.one_in(2) {
            let body = c.of(&[
                "{{ .Chart.Name }}",
                "{{ .Template.Name }}",
                "{{ .Values.x }}",
                "t of {{ .Release.Name }}",
                "{{ $_ := set .Values \"y\" (list 1) }}",
                "{{ .Values.global.x }}",
                "{{ template \"u\" . }}",
            ]);
            out += &format!("{{{{ define \"{name}\" }}}}{body}{{{{ end }}}}\n");
        }
    }
    out
}

/// What a template can print in any chart, or nearly.
const WHAT: &[&str] = &[
    "(coalesce .Values.x .Values.y .Values.on)",
    "(pluck \"x\" .Values (.Values.a | default dict | toYaml | fromYaml))",
    ".Values",
    ".Values.x",
    ".Values.a",
    ".Values.global",
    ".Values.b",
    ".Values.alias",
    ".Values.exports",
    ".Values.tags",
    ".Subcharts",
    ".Subcharts.a",
    ".Chart",
    ".Chart.Name",
    ".Chart.Version",
    ".Chart.AppVersion",
    ".Chart.Annotations",
    ".Chart.Annotations.x",
    "(index .Chart.Annotations \"k/v\")",
    ".Chart.Keywords",
    ".Chart.Maintainers",
    ".Chart.Dependencies",
    ".Chart.Type",
    ".Chart.Deprecated",
    ".Chart.KubeVersion",
    ".Chart.IsRoot",
    ".Chart.Sources",
    ".Chart.Home",
    ".Chart.Icon",
    ".Chart.Tags",
    ".Chart.Condition",
    ".Chart.APIVersion",
    ".Release",
    ".Release.IsInstall",
    ".Release.Revision",
    ".Template",
    ".Template.BasePath",
    ".Template.Name",
    ".Files",
    "(.Files.Get \"f.txt\")",
    "(.Files.Glob \"*\")",
    "(.Files.Glob \"**\").AsConfig",
    "(.Files.Glob \"conf/*\").AsSecrets",
    "(.Files.Lines \"f.txt\")",
    "(.Files.GetBytes \"f.txt\")",
    ".Capabilities.KubeVersion",
    ".Capabilities.KubeVersion.Minor",
    "(.Capabilities.APIVersions.Has \"v1\")",
    "(keys . | sortAlpha)",
    "(keys .Values | sortAlpha)",
    "(tpl (.Files.Get \"f.txt\") (dict \"x\" 1 \"Template\" .Template))",
    "(omit . \"Template\" \"Files\" \"Capabilities\")",
    "(pick . \"Chart\" \"Subcharts\")",
    "(merge (dict) .Values)",
    "(mustMergeOverwrite (dict) .Values (dict \"x\" nil))",
    "(deepCopy .Values)",
    "(deepCopy .Capabilities)",
    "(deepCopy .Capabilities).KubeVersion",
    "(deepCopy .Capabilities.KubeVersion)",
    "(list .Capabilities.KubeVersion)",
    "(dict \"k\" .Capabilities.KubeVersion).k",
    "(and 1 .Capabilities.KubeVersion)",
    "(ternary .Capabilities.KubeVersion 1 true)",
    ".Capabilities.KubeVersion.String",
    ".Capabilities.KubeVersion.Version",
    ".Capabilities.HelmVersion",
    ".Capabilities | html",
    "html .Capabilities.KubeVersion .Chart.Version",
    "(print .Capabilities)",
    "(first (list .Capabilities))",
    "(semver .Chart.Version)",
    ".Capabilities.APIVersions",
    "(hasKey .Values \"a\")",
    "(get .Values \"a\")",
    "(empty .Values.a)",
];

/// What holds lists of pointers. Go prints their addresses, which differ in each run; parsed as YAML, they would be told
/// from what Windlass prints by an error that does not differ.
const POINTERS: &[&str] = &[".Chart", ".Chart.Maintainers", ".Chart.Dependencies"];

/// What often fails.
const RISKY: &[&str] = &[
    "(pluck \"x\" .Values .Values.global)",
    "(coalesce .Values.x .Values.y .Values.global.x)",
    ".Values.global.x",
    ".Subcharts.a.Values",
    ".Subcharts.a.Release",
    "(semver \"1.2.3\").major",
    "(now).wall",
    ".Values.a.x",
    ".Values.a.global",
    ".Values.a.b",
    ".Values.data.x",
    ".Subcharts.b.Chart.Name",
    ".Subcharts.alias.Values.x",
    ".Subcharts.a.Subcharts.b.Values",
    ".Chart.Annotations.x.y",
    "(first (list .Capabilities.KubeVersion)).String",
    "(deepCopy .Capabilities.KubeVersion).Minor",
    "(first (list .Capabilities.KubeVersion)).normalizedVersion",
    "(deepCopy .Chart.Annotations)",
    "(merge (dict) .Chart)",
    "(set .Chart \"Name\" 1)",
    "(.Chart | toYaml | fromYaml)",
    ".Chart.apiVersion",
    ".Chart.Unknown",
    ".Chart.Metadata.Name",
    "(index .Chart.Dependencies 0).Name",
    "(first .Chart.Dependencies).Alias",
    "(first .Chart.Maintainers).Email",
    ".Capabilities.HelmVersion.Version",
    "(include \"t\" .)",
    "(include \"u\" .)",
    "(include \"a.t\" .)",
    "(tpl (.Values.x | toString) .)",
    "(tpl \"{{ .Template.Name }} {{ include `t` . }}\" .)",
    "(merge (dict \"x\" 1) .Values.global)",
    "(dig \"a\" \"x\" \"none\" .Values)",
    "(eq .Values.x .Values.a.x)",
    "(.Values.AsMap)",
    "(.Values.Table \"a\")",
    "(.Values.PathValue \"a.x\")",
    "(.Values.YAML)",
    "(.Subcharts.a.Values.x)",
];

/// Something to print.
fn shown(c: &mut Choices) -> String {
    let what = if c.one_in(30) { c.of(RISKY) } else { c.of(WHAT) };
    let how = if c.one_in(40) && !POINTERS.contains(&what) {
        c.of(&[" | len", " | required \"r\"", " | toToml | quote", ""])
    } else {
        c.of(&[
            " | toJson",
            " | toYaml | nindent 2",
            " | quote",
            " | typeOf",
            " | kindOf",
            " | default \"d\" | toJson",
            " | printf \"%v\" | quote",
            " | printf \"%T %d\"",
            " | not",
            " | toString | b64enc",
        ])
    };
    format!("{what}{how}")
}

/// Something that changes what others see.
fn change(c: &mut Choices) -> &'static str {
    c.of(&[
        "{{- $_ := set .Values \"x\" .Chart.Name }}",
        "{{- if kindIs \"map\" .Values.a }}{{ $_ := set .Values.a \"x\" \"set\" }}{{ end }}",
        "{{- with .Values.global }}{{ $_ := set . \"x\" (list $.Template.Name) }}{{ end }}",
        "{{- $_ := unset .Values \"x\" }}",
        "{{- $_ := set . \"Extra\" 1 }}",
        "{{- $_ := set .Values \"a\" (dict \"x\" \"new\") }}",
        "{{- $_ := mergeOverwrite .Values (dict \"a\" (dict \"x\" 1) \"y\" nil) }}",
        "{{- with .Values.global }}{{ $_ := merge . (dict \"y\" (dict \"x\" 1)) }}{{ end }}",
        "{{- range .Subcharts }}{{ $_ := set .Values \"x\" 2 }}{{ end }}",
        "{{- $_ := set .Release \"Name\" \"n\" }}",
        "{{- $_ := set .Template \"Name\" \"n\" }}",
        "{{- $_ := set .Chart \"Name\" \"n\" }}",
        "{{- $_ := set $ \"Values\" (deepCopy .Values) }}",
    ])
}

/// What may stand between two documents.
const SEPARATORS: &[&str] = &[
    "--- \n",
    "---\n# c\n",
    "---",
    "\n---\n\n",
    "--- # c\n",
    "---\r\n",
    " ---\n",
    "---\n---\n",
    "---\n# Source: x/y.yaml\n---\n",
    "...\n",
    "...\n---\n",
    "---\t\n",
    "----\n",
    "---\n{{- /* c */}}\n",
    "{{- print \"\\n---\\n\" -}}\n",
    "---\n\n  \n---\n",
    "---\nnull\n---\n",
    "---\n\u{feff}",
];

/// The text of a template with a few documents.
fn resources(c: &mut Choices) -> String {
    let mut out = String::new();
    if c.one_in(12) {
        out += change(c);
        out.push('\n');
    }
    for n in 0..=c.below(3) {
        if n > 0 {
            out += if c.one_in(10) { c.of(SEPARATORS) } else { "---\n" };
        }
        if c.one_in(3) {
            out += &document(c);
        } else {
            let key = c.of(&["v", "w"]);
            out += &match c.below(6) {
                4 => format!("{{{{- if .Values.on }}}}\n{key}: {{{{ {} }}}}\n{{{{- end }}}}\n", shown(c)),
                5 => {
                    let what =
                        c.of(&["with .Values.a", "range .Values.l", "range .Values", "with .Subcharts.a"]);
                    format!("{{{{- {what} }}}}\n{key}: {{{{ . | toJson }}}}\n{{{{- end }}}}\n")
                }
                _ => format!("{key}: {{{{ {} }}}}\n", shown(c)),
            };
        }
    }
    out
}

const ANNOTATIONS: &[&str] = &[
    "    helm.sh/hook: pre-install\n",
    "    helm.sh/hook: post-install,pre-upgrade\n",
    "    helm.sh/hook-weight: \"5\"\n",
    "    helm.sh/hook-weight: \"-3\"\n",
    "    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded\n",
    "    helm.sh/hook-output-log-policy: hook-failed\n",
    "    helm.sh/resource-policy: keep\n",
    "    helm.sh/hook: pre-rollback,post-rollback,pre-delete,post-delete\n",
    "    helm.sh/hook-output-log-policy: hook-succeeded,hook-failed\n",
];

const ODD_ANNOTATIONS: &[&str] = &[
    "    \"helm.sh/hook\": \"test\"\n",
    "    helm.sh/hook-weight: x\n",
    "    helm.sh/hook: crd-install\n",
    "    helm.sh/hook: none-such\n",
    "    helm.sh/hook: pre-install , test-success\n",
    "    x: 1\n",
    "    helm.sh/hook-weight: 5\n",
    "    helm.sh/hook-weight: \"+7\"\n",
    "    helm.sh/hook-weight: \"0x10\"\n",
    "    helm.sh/hook-weight: \"99999999999\"\n",
    "    helm.sh/hook: \"\"\n",
    "    helm.sh/hook: PRE-install\n",
    "    helm.sh/hook-delete-policy: \"\"\n",
    "    helm.sh/hook-delete-policy: hook-failed, none\n",
    "    x: null\n",
    "    x: {a: b}\n",
    "    1: a\n",
    "    true: false\n",
];

/// A resource, or a hook.
fn document(c: &mut Choices) -> String {
    let kind = c.of(&[
        "ConfigMap",
        "Secret",
        "Pod",
        "Namespace",
        "Deployment",
        "Role",
        "RoleBinding",
        "Service",
        "Widget",
        "",
        "CustomResourceDefinition",
        "ServiceAccount",
        "Ingress",
    ]);
    let name = if c.one_in(40) {
        c.of(&["1", "null", "[]", "é", "\"\"", "{{ .Values.x }}"])
    } else {
        c.of(&["n", "m", "{{ .Release.Name }}", "{{ .Chart.Name }}"])
    };
    let mut out = format!(
        "apiVersion: {}\nkind: {kind}\nmetadata:\n  name: {name}\n",
        c.of(&["v1", "apps/v1", "x/v1beta1", ""])
    );
    if c.one_in(3) {
        out += "  annotations:\n";
        for _ in 0..=c.below(2) {
            let some = if c.one_in(10) { ODD_ANNOTATIONS } else { ANNOTATIONS };
            out += c.of(some);
        }
    }
    if c.one_in(3) {
        out += &format!("data:\n  v: {{{{ {} }}}}\n", shown(c));
    }
    if c.one_in(40) {
        out += c.of(&[
            "a: &x 1\nb: *x\n",
            "a: |\n  x\n  ---\n  y\n",
            "a: >-\n  x\n\n  y",
            "a: 'it''s'\n",
            "a: !!binary aGk=\n",
            "a: 1\na: 2\n",
            "? a\n: b\n",
            "a: \"x\\\n  y\"\n",
            "{a: 1}\n",
            "- a\n",
            "a: @x\n",
            "a: {{ .Release.Name }}: b\n",
            "\tx: 1\n",
            "a: 0o7\nb: 1e3\nc: .inf\nd: 2001-01-01\n",
            "<<: {q: 1}\n",
        ]);
    }
    out
}
