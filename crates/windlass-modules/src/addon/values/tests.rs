//! Tables of values: layers, schemas, patches.

use std::fs;

use chart_compat::profile::Profile;

use super::super::UNNUMBERED_ORDER;
use super::*;

const CONFIG: &str = "
type: object
required: [size]
properties:
  size: {type: integer, default: 2, minimum: 1, exclusiveMinimum: true}
  hosts: {type: array, items: {type: object, properties: {name: {type: string, pattern: '^[a-z]+$'}, port: {type: integer, default: 80}}}}
  labels: {type: object, additionalProperties: {type: string}}
  note: {type: string, nullable: true}
  disk: {$ref: '#/definitions/disk'}
definitions:
  disk: {type: object, properties: {gb: {type: number}}, x-deckhouse-validations: [{expression: 'self.gb >= oldSelf.gb', message: a disk never shrinks}]}
";

const VALUES: &str = "
x-extend: {schema: config-values.yaml}
type: object
properties:
  internal:
    type: object
    default: {}
    x-required-for-helm: [token]
    properties: {token: {type: string}, ready: {type: boolean, default: false}}
";

fn values() -> (Values, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("m/values.yaml", "global: {zone: a}\nwebSite: {size: 2, labels: {a: '1'}}\n");
    write("m/010-web-site/values.yaml", "webSite: {labels: {b: '2'}}\n");
    write("m/010-web-site/openapi/config-values.yaml", CONFIG);
    write("m/010-web-site/openapi/values.yaml", VALUES);
    write("m/020-free/values.yaml", "free: {x: 1}\n");
    write("m/030-bad/openapi/values.yaml", "type: object\nproperties: {a: {$ref: other.yaml#/a}}\n");
    write(
        "g/openapi/config-values.yaml",
        "type: object\nproperties: {zone: {type: string}, deep: {type: object, default: {}}}\n",
    );
    let modules =
        Modules::discover(&dir.path().join("m").to_string_lossy(), UNNUMBERED_ORDER, Profile::Helm4);
    let (values, problems) = Values::new(&modules, Some(&dir.path().join("g")));
    (values, problems.into_values().map(|p| p.replace(&*dir.path().to_string_lossy(), "")).collect())
}

fn own(values: &Values) -> Value {
    values.section("webSite").unwrap().clone()
}

const WEB: Root<'static> = Root::Module("webSite");

#[test]
fn layers_are_laid_in_the_peers_order() {
    let (mut values, problems) = values();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("/m/030-bad/openapi/values.yaml: $ref \"other.yaml#/a\" leads nowhere"),
        "{problems:?}"
    );
    let start = json!({"size": 2, "labels": {"a": "1", "b": "2"}, "internal": {"ready": false}});
    assert_eq!(own(&values), start);
    assert_eq!(values.section("global"), Some(&json!({"zone": "a", "deep": {}})));
    let config = json!({"size": 3, "hosts": [{"name": "x"}], "labels": {"b": "3"}});
    assert_eq!(values.set_config("webSite", Some(config.clone())), Ok(true));
    assert_eq!(values.set_config("webSite", Some(config.clone())), Ok(false));
    let full = json!({
        "size": 3, "labels": {"a": "1", "b": "3"}, "hosts": [{"name": "x", "port": 80}], "internal": {"ready": false},
    });
    assert_eq!(own(&values), full);
    assert_eq!(values.config_for_hook("webSite"), json!({"global": {}, "webSite": config}));
    let seen = values.for_hook("webSite", &["web-site".to_owned()]);
    assert_eq!(
        seen,
        json!({"global": {"zone": "a", "deep": {}, "enabledModules": ["web-site"]}, "webSite": full})
    );
    assert_eq!(values.set_config("webSite", None), Ok(true));
    assert_eq!(own(&values), start);
}

#[test]
fn a_section_that_breaks_its_schema_changes_nothing() {
    let (mut values, _) = values();
    assert_eq!(values.set_config("webSite", Some(json!({"size": 5, "disk": {"gb": 5}}))), Ok(true));
    let table = [
        (json!({"size": "s3cret"}), "webSite.size: got string, want integer"),
        (json!({"size": 1}), "webSite.size"),
        (json!({"sise": 2}), "sise"),
        (json!({"size": 2, "hosts": [{"name": "X"}]}), "webSite.hosts[0].name: "),
        (json!({"size": 2, "labels": {"a": 1}}), "webSite.labels.a: got number, want string"),
        (json!({"size": 2, "internal": {}}), "internal"),
        (json!({"size": 2, "disk": {"gb": 4}}), "webSite.disk: a disk never shrinks"),
        (json!([1]), "got array, want object"),
    ];
    for (config, part) in table {
        let error = values.set_config("webSite", Some(config)).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
        assert!(error.ends_with("openapi/config-values.yaml)"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        assert_eq!(own(&values)["size"], 5);
    }
    assert_eq!(values.set_config("webSite", Some(json!({"size": 2, "note": null}))), Ok(true));
    assert_eq!(values.set_config("free", Some(json!({"anything": [1]}))), Ok(true));
}

#[test]
fn patches_of_hooks_come_last_and_are_checked() {
    let (mut values, _) = values();
    let missing = values.for_chart("webSite").unwrap_err();
    assert!(missing.contains("webSite.internal: ") && missing.contains("token"), "{missing}");
    let patch = |values: &mut Values, text: &str| values.patch(WEB, text.as_bytes());
    let token = r#"{"op":"add","path":"/webSite/internal/token","value":"t"}"#;
    assert_eq!(patch(&mut values, token), Ok(Patched { values: true, flags: false }));
    assert_eq!(patch(&mut values, token), Ok(Patched::default()));
    assert!(values.for_chart("webSite").is_ok());
    let wrong = r#"[{"op":"add","path":"/webSite/size","value":9},{"op":"add","path":"/webSite/internal/token","value":7}]"#;
    let error = patch(&mut values, wrong).unwrap_err();
    assert!(error.contains("webSite.internal.token: got number, want string"), "{error}");
    assert_eq!(own(&values)["size"], 2, "nothing of a bad patch is taken");
    assert!(
        patch(&mut values, r#"{"op":"remove","path":"/webSite/hosts"}"#)
            .unwrap_err()
            .contains("leads nowhere")
    );
    // A later change of the ConfigMap lies below what hooks say.
    assert_eq!(
        patch(&mut values, r#"{"op":"add","path":"/webSite/size","value":7}"#).map(|p| p.values),
        Ok(true)
    );
    assert_eq!(values.set_config("webSite", Some(json!({"size": 4}))), Ok(false));
    assert_eq!(own(&values)["size"], 7);
    assert_eq!(values.patches("webSite").as_array().map(Vec::len), Some(2));
    values.forget("webSite");
    assert_eq!(own(&values)["size"], 4);
}

#[test]
fn global_hooks_turn_modules_on_and_off() {
    let (mut values, _) = values();
    let name = ModuleName::parse("010-web-site", 1).unwrap();
    assert_eq!(values.flag(&name), None);
    let patch = |values: &mut Values, text: &str| values.patch(Root::Global, text.as_bytes());
    let bad = r#"[{"op":"add","path":"/global/x","value":1},{"op":"add","path":"/webSiteEnabled","value":"maybe"}]"#;
    assert!(patch(&mut values, bad).unwrap_err().contains("neither true nor false"));
    assert_eq!(
        values.section("global"),
        Some(&json!({"zone": "a", "deep": {}})),
        "nothing of a bad patch is taken"
    );
    assert_eq!(values.flag(&name), None);
    let on = r#"{"op":"add","path":"/webSiteEnabled","value":"true"}"#;
    assert_eq!(patch(&mut values, on), Ok(Patched { values: false, flags: true }));
    assert_eq!(values.flag(&name), Some(true));
    assert_eq!(patch(&mut values, on), Ok(Patched::default()));
    assert_eq!(
        patch(&mut values, r#"{"op":"add","path":"/global/x","value":1}"#).map(|p| p.values),
        Ok(true)
    );
    assert_eq!(patch(&mut values, r#"{"op":"remove","path":"/webSiteEnabled"}"#).map(|p| p.flags), Ok(true));
    assert_eq!(values.flag(&name), None);
}

#[test]
fn patches_of_the_configmap_say_what_it_should_be() {
    let (mut values, _) = values();
    values.set_config("webSite", Some(json!({"size": 3, "labels": {"b": "3"}}))).unwrap();
    let seen = values.config_for_hook("webSite");
    let now = |key: &str| {
        Ok(match key {
            "freeEnabled" => Some(json!(true)),
            "webSite" => Some(values.config_section(key)),
            _ => None,
        })
    };
    let ask = |root, text: &str| values.config_patch(root, text.as_bytes(), &seen, now);
    assert_eq!(
        ask(WEB, r#"{"op":"remove","path":"/webSite/labels"}"#),
        Ok(BTreeMap::from([("webSite".to_owned(), Some(json!({"size": 3})))]))
    );
    assert_eq!(ask(WEB, r#"{"op":"add","path":"/webSite/size","value":3}"#), Ok(ConfigChange::new()));
    assert!(
        ask(WEB, r#"{"op":"add","path":"/webSite/size","value":0}"#).unwrap_err().contains("webSite.size")
    );
    assert_eq!(
        ask(
            Root::Global,
            r#"[{"op":"add","path":"/freeEnabled","value":false},{"op":"add","path":"/webSiteEnabled","value":true}]"#
        ),
        Ok(BTreeMap::from([
            ("freeEnabled".to_owned(), Some(json!(false))),
            ("webSiteEnabled".to_owned(), Some(json!(true)))
        ]))
    );
    assert_eq!(
        ask(Root::Global, r#"{"op":"remove","path":"/freeEnabled"}"#),
        Ok(BTreeMap::from([("freeEnabled".to_owned(), None)]))
    );
}

#[test]
fn what_someone_edited_meanwhile_stays() {
    let (mut values, _) = values();
    let read = json!({"size": 3, "labels": {"a": "1"}, "hosts": [{"name": "x"}]});
    values.set_config("webSite", Some(read)).unwrap();
    let seen = values.config_for_hook("webSite");
    // By now someone has made it four, and given it another label and another entry.
    let edited = json!({"size": 4, "labels": {"a": "1", "b": "2"}, "hosts": [{"name": "x"}, {"name": "y"}]});
    let ask = |text: &str| {
        let now = |_: &str| Ok(Some(edited.clone()));
        let change = values.config_patch(WEB, text.as_bytes(), &seen, now);
        change.map(|mut c| c.remove("webSite").flatten().unwrap_or_default())
    };
    let with = |pointer: &str, value: serde_json::Value| {
        let mut changed = edited.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        Ok(changed)
    };
    let add = |path: &str, value: &str| format!(r#"{{"op":"add","path":"/webSite/{path}","value":{value}}}"#);
    assert_eq!(ask(&add("labels/a", "\"9\"")), with("/labels/a", json!("9")), "other keys keep their edits");
    let three = json!([{"name": "x"}, {"name": "y"}, {"name": "z"}]);
    assert_eq!(ask(&add("hosts/-", r#"{"name":"z"}"#)), with("/hosts", three));
    assert_eq!(ask(&add("size", "4")), Ok(json!(null)), "both want the same: there is nothing to do");
    let remove = r#"{"op":"remove","path":"/webSite/labels"}"#;
    for taken in [&*add("size", "5"), &*add("hosts/0", "{}"), &*add("labels", "{}"), remove] {
        let text = ask(taken).unwrap_err();
        assert!(text.contains("edited there since the hook read it"), "{taken}: {text}");
    }
    // What cannot be read is not written over.
    let unread = |_: &str| Err("key webSite line 1: bad".to_owned());
    let error = values.config_patch(WEB, add("size", "4").as_bytes(), &seen, unread).unwrap_err();
    assert_eq!(error, "key webSite line 1: bad");
}
