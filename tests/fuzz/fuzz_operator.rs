//! Nothing in release records, in configurations and outputs of hooks and in the configuration of modules makes the operator panic, hang
//! or eat the machine.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use windlass_differential::Family;
use windlass_engine::record::{decode_secret, encode_secret, split_manifest};
use windlass_modules::addon::{Config, ModuleName};
use windlass_modules::shell_hooks::config::{BatchConfig, HookConfig};
use windlass_modules::shell_hooks::values_patch::{Patch, Root};
use windlass_modules::shell_hooks::{Scope, metrics_file, operations, webhook_responses};

use super::{ends, files, fixtures, fuzz, texts};

/// A Secret with a payload.
fn secret(payload: &[u8]) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": "sh.helm.release.v1.a.v1", "namespace": "n", "labels": {"owner": "helm", "name": "a", "version": "1", "x": "y"}},
        "data": {"release": STANDARD.encode(payload)},
    })
}

/// Reads a record as the engine does, and writes it again.
fn read(payload: &[u8]) {
    let Ok(record) = decode_secret(&secret(payload)) else { return };
    for (_, document) in split_manifest(&record.manifest) {
        drop(windlass_render::parse_manifest(document));
    }
    drop(encode_secret(&record, ""));
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn release_records() {
    let record = json!({
        "name": "a", "namespace": "n", "version": 1, "info": {
            "first_deployed": "2026-01-01T00:00:00Z", "last_deployed": "2026-01-01T00:00:00.123Z", "deleted": "", "description": "x",
            "status": "deployed", "notes": "n",
        },
        "chart": {"metadata": {"name": "c", "version": "1.0.0", "apiVersion": "v2"}, "templates": [{"name": "t", "data": "YQ=="}],
            "values": {"a": [1, null, {"b": 1.5}]}, "schema": "e30=", "files": [], "lock": null},
        "config": {"a": 1}, "manifest": "---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        "hooks": [{"name": "h", "kind": "Job", "path": "p", "manifest": "m", "events": ["pre-install"], "weight": 1,
            "last_run": {"started_at": "", "completed_at": "", "phase": ""}, "delete_policies": ["hook-succeeded"]}],
        "labels": {"x": "y"}, "apply_method": "ssa",
    });
    let record = record.to_string().into_bytes();
    // Damaged before and after it is packed.
    fuzz("records, inside", std::slice::from_ref(&record), &[], |json| {
        read(STANDARD.encode(gzipped(json)).as_bytes());
    });
    fuzz("records, packed", &[gzipped(&record)], &[], |packed| read(STANDARD.encode(packed).as_bytes()));
    fuzz("records, outside", &[STANDARD.encode(gzipped(&record)).into_bytes()], &[], read);
}

#[test]
fn configurations_of_hooks() {
    let mut seeds: Vec<Vec<u8>> = [
        "configVersion: v1\nonStartup: 1\nschedule: [{name: s, crontab: '*/5 * * * * *', queue: q, allowFailure: true}]\nkubernetes:\n- {name: k, apiVersion: v1, \
         kind: Pod, jqFilter: '.metadata | {n: .name}', nameSelector: {matchNames: [a]}, labelSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}, \
         fieldSelector: {matchExpressions: [{field: status.phase, operator: Equals, value: x}]}, namespace: {labelSelector: {matchLabels: {a: b}}}, \
         executeHookOnEvent: [Added], keepFullObjectsInMemory: false, group: g, includeSnapshotsFrom: [k]}\nsettings: {executionMinInterval: 3s, \
         executionBurst: 1}\n",
        "configVersion: v1\nkubernetesValidating: [{name: a.b.c, rules: [{apiVersions: [v1], apiGroups: [''], resources: [pods], operations: ['*'], scope: \
         Namespaced}], matchConditions: [{name: x, expression: 'true'}], timeoutSeconds: 5}]\nkubernetesCustomResourceConversion: [{name: c, crdName: a.b, \
         conversions: [{fromVersion: v1, toVersion: v2}]}]\nbeforeHelm: 10\nafterDeleteHelm: 5.5\n",
        "{\"onStartup\": 1, \"schedule\": [{\"crontab\": \"0 * * * *\"}], \"onKubernetesEvent\": [{\"kind\": \"pod\", \"event\": [\"add\"], \"jqFilter\": \".\"}]}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    seeds.extend(
        texts("hooks", &|path| ends(path, "yaml") || ends(path, "json"))
            .into_iter()
            .filter(|text| text.len() < 20_000),
    );
    fuzz("hook configurations", &seeds, &[Family::Yaml], |text| {
        for scope in [Scope::Module, Scope::Global] {
            drop(HookConfig::parse(text, scope));
        }
    });
}

#[test]
fn configurations_of_batch_programs() {
    let hook = json!({
        "configVersion": "v1", "metadata": {"name": "h", "path": "hooks"}, "onStartup": 1, "beforeHelm": 2, "allowFailure": true,
        "schedule": [{"name": "s", "crontab": "*/5 * * * * *", "queue": "q"}],
        "kubernetes": [{
            "name": "k", "apiVersion": "v1", "kind": "Pod", "nameSelector": {"matchNames": ["a"]},
            "namespace": {"nameSelector": {"matchNames": ["n"]}}, "labelSelector": {"matchLabels": {"a": "b"}},
            "executeHookOnEvent": false, "keepFullObjectsInMemory": true, "jqFilter": ".metadata", "includeSnapshotsFrom": ["k"],
        }],
        "settings": {"executionMinInterval": 3_000_000_000_u64, "executionBurst": 1}, "logLevel": "info",
    });
    let seeds = [
        json!({"version": "v1", "hooks": [hook], "readiness": hook, "has_settings_check": true}),
        json!([hook]),
        json!({"level": "error", "msg": "no", "error": "because"}),
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_string().into_bytes()).collect();
    fuzz("batch programs", &seeds, &[], |text| {
        for scope in [Scope::Module, Scope::Global] {
            drop(BatchConfig::parse(text, scope));
        }
    });
}

#[test]
fn outputs_of_hooks() {
    let seeds: Vec<Vec<u8>> = [
        "{\"operation\": \"Create\", \"object\": {\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"a\"}}}\n---\n{\"operation\": \
         \"MergePatch\", \"kind\": \"Pod\", \"name\": \"p\", \"mergePatch\": {\"a\": null}}",
        "- operation: JQPatch\n  kind: Pod\n  name: p\n  jqFilter: '.a = 1'\n- operation: DeleteInBackground\n  kind: Pod\n  name: p\n",
        "[{\"op\": \"add\", \"path\": \"/module/a/b\", \"value\": [1]}, {\"op\": \"remove\", \"path\": \"/module/~1c~0\"}]",
        "{\"name\": \"m\", \"action\": \"observe\", \"value\": 1.5, \"labels\": {\"a\": \"b\"}, \"buckets\": [1, 2]}\n{\"group\": \"g\", \"action\": \"expire\"}",
        "{\"allowed\": true, \"patch\": \"W10=\", \"warnings\": [\"w\"]}",
        "{\"convertedObjects\": [{\"apiVersion\": \"v1\"}]}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    let document = json!({"module": {"a": {"b": [1, {"c": null}]}, "/c~": 1}});
    fuzz("hook outputs", &seeds, &[Family::Yaml], |text| {
        let told = String::from_utf8_lossy(text);
        drop(operations::parse(&told));
        drop(metrics_file::parse(&told, Some("g")));
        drop(webhook_responses::admitted(&told));
        drop(webhook_responses::converted(&told, 1));
        if let Ok(patch) = Patch::read(text, Root::Module("module")) {
            drop(patch.apply(&mut document.clone(), true));
            drop(patch.apply(&mut document.clone(), false));
            drop(patch.to_json());
        }
    });
}

#[test]
fn configurations_of_modules() {
    let names = ["001-alpha", "020-echo-server"];
    let modules: Vec<ModuleName> = names.iter().map(|name| ModuleName::parse(name, 1).unwrap()).collect();
    let keys = [
        "global",
        "alpha",
        "alphaEnabled",
        "echoServer",
        "echoServerMaintenance",
        "echoServerValuesFrom",
        "else",
    ];
    let seeds: Vec<Vec<u8>> = files(&fixtures().join("modules"), &|path| path.ends_with("values.yaml"))
        .into_iter()
        .map(|(_, text)| text)
        .chain([b"- {kind: Secret, name: a, valuesKey: b, targetPath: c.d, optional: true}\n".to_vec()])
        .collect();
    fuzz("module configuration", &seeds, &[Family::Yaml], |text| {
        let told = String::from_utf8_lossy(text).into_owned();
        let data: BTreeMap<String, String> =
            keys.iter().map(|key| ((*key).to_owned(), told.clone())).collect();
        drop(Config::parse(&data, &modules));
        drop(ModuleName::parse(&told, 1));
    });
}
