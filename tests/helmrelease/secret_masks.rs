//! Secrets of tenants in texts: their own are masked in what their objects say, and those of others show by no mask.

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::notifications::{Inbox, chart_source, notification};
use super::sources::chart_spec;
use super::support::{LIMIT, Running, chart};

/// What templates quote of each key of the values, in the form in which it is in the Secret.
const QUOTED: [&str; 4] =
    ["wonderland-rabbit-secret", "comma,separated-secret", "json-of-the-rabbit", "731731731731"];

fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

fn messages(r: &Running) -> Vec<String> {
    let events = r.list("events");
    events.iter().map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A value of a Secret is no line of it: with YAML, with JSON, and with a path that takes a backslash away.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_shown_by_no_status_and_no_event() {
    let mut r = Running::prepare("masks-values").await;
    let more = "{{ fail (printf \"cannot use the password %v\" (index .Values .Values.quoted)) }}";
    r.publish("demo", "1.0.0", chart("1.0.0", &[("templates/more.yaml", more)]));
    r.apply(&secret(
        "login",
        &json!({
            "values.yaml": format!("yaml: {}\nnumber: {}\n", QUOTED[0], QUOTED[3]),
            "json": json!({"json": QUOTED[2]}).to_string(),
            "escaped": QUOTED[1].replace(',', "\\,"),
        }),
    ));
    let from = json!([
        {"kind": "Secret", "name": "login"},
        {"kind": "Secret", "name": "login", "valuesKey": "json"},
        {"kind": "Secret", "name": "login", "valuesKey": "escaped", "targetPath": "path"},
    ]);
    let names = ["yaml", "path", "json", "number"];
    for name in names {
        r.release(name, &json!({"valuesFrom": from, "values": {"quoted": name}}));
    }
    r.start().await;
    for name in names {
        let found = || {
            let object = r.get("helmrelease", name);
            let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = all.iter().find(|one| one["type"] == "Ready" && one["status"] == "False");
            Ok(ready.map(|ready| ready["message"].as_str().unwrap_or_default().to_owned()))
        };
        let text = wait_until(&format!("{name} has failed"), LIMIT, found).unwrap();
        assert!(text.contains("cannot use the password ***"), "{name}: {text}");
    }
    let said = || {
        let count = messages(&r).iter().filter(|text| text.contains("password ***")).count();
        Ok((count >= names.len()).then_some(()))
    };
    wait_until("there is an Event of each", LIMIT, said)
        .unwrap_or_else(|e| panic!("{e}: {:?}", messages(&r)));
    let all = [messages(&r).join("\n"), json!(r.list("helmreleases")).to_string()].concat();
    for quoted in QUOTED {
        assert!(!all.contains(quoted), "{quoted}: {all}");
    }
    r.end().await;
}

/// The process has read Secrets of a victim: to watch them, and to send its events. A guess of somebody else stays as it is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_guess_in_an_alert_is_quoted_as_it_is() {
    let mut victim = Running::prepare("masks-victim").await;
    let storage = tempfile::tempdir().unwrap();
    let inbox = Inbox::default();
    let address = inbox.serve().await;
    let (value, token) = ("victim-rabbit-secret", "victim-slack-token-77");
    victim.apply(&secret("login", &json!({"size": value})));
    victim.apply(&secret("slack", &json!({"token": token, "address": format!("http://{address}/hook")})));
    let releases = json!([{"kind": "HelmRelease", "name": "*"}]);
    for (name, provider) in [("well", "slack"), ("guess-value", value), ("guess-token", token)] {
        victim.apply(&notification(
            "Alert",
            name,
            &json!({"providerRef": {"name": provider}, "eventSources": releases}),
        ));
    }
    let provider = json!({"type": "generic", "secretRef": {"name": "slack"}});
    victim.apply(&notification("Provider", "slack", &provider));
    victim.start_with_notifications(storage.path()).await;
    let _files = chart_source(&victim).await;
    let mut spec = chart_spec("HelmRepository", &json!({}));
    spec["valuesFrom"] =
        json!([{"kind": "Secret", "name": "login", "valuesKey": "size", "targetPath": "size"}]);
    victim.release("web", &spec);
    inbox.wait("web", "InstallSucceeded");
    // Once all of the first release is read and watched.
    victim.release("next", &chart_spec("HelmRepository", &json!({})));
    inbox.wait("next", "InstallSucceeded");
    for guess in [value, token] {
        let expected = format!("/{guess}' does not exist");
        let found = || {
            let all = messages(&victim);
            let mut about_next = all.iter().filter(|text| text.contains("/next"));
            Ok(about_next.any(|text| text.contains(&expected)).then_some(()))
        };
        wait_until(&format!("an Event quotes {guess}"), LIMIT, found)
            .unwrap_or_else(|e| panic!("{e}: {:#?}", messages(&victim)));
    }
    let all = messages(&victim);
    assert!(!all.iter().any(|text| text.contains("***' does not exist")), "{all:#?}");
    victim.end().await;
}
