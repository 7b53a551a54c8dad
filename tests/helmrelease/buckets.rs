//! Buckets of all providers, from servers on loopback, with every kind of credentials that a Secret can hold.

use rcgen::{KeyPair, PKCS_RSA_SHA256};
use serde_json::{Value, json};

use super::sources::{Files, chart_spec, message, source};
use super::support::{Running, digest};

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_bucket_are_an_artifact() {
    let mut running = Running::prepare("bucket").await;
    let (files, storage) = (Files::default(), tempfile::tempdir().unwrap());
    let address = files.serve().await;
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {size: \"{{ .Values.size }}\"}\n";
    let all = [
        ("charts/demo/Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
        ("charts/demo/values.yaml", "size: one\n"),
        ("charts/demo/templates/config.yaml", object),
        ("secret.txt", "not for the artifact"),
    ];
    let mut list = "<ListBucketResult><IsTruncated>false</IsTruncated>".to_owned();
    for (key, text) in all {
        files.put(&format!("/bucket/{key}"), text);
        list.push_str(&format!(
            "<Contents><Key>{key}</Key><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>",
            &digest(text.as_bytes())[7..20],
            text.len()
        ));
    }
    list.push_str("</ListBucketResult>");
    files.put("/bucket", list);
    running.start_with_sources(storage.path()).await;
    let keys = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"accesskey": "AKIDEXAMPLE", "secretkey": "secret-key-of-the-bucket"}});
    running.apply(&keys);
    let spec = json!({
        "bucketName": "bucket", "endpoint": address.to_string(), "insecure": true, "interval": "1h",
        "ignore": "secret.txt", "secretRef": {"name": "keys"},
    });
    running.apply(&source("Bucket", "demo", &spec));
    running.release("web", &chart_spec("Bucket", &json!({"chart": "charts/demo"})));
    running.wait_ready("web", "True InstallSucceeded");
    let object = running.ready_source("bucket", "demo");
    let path = object["status"]["artifact"]["path"].as_str().unwrap();
    let archive = std::fs::read(storage.path().join(path)).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&archive[..]));
    let names: Vec<String> =
        archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
    assert!(
        names.iter().any(|name| name.ends_with("Chart.yaml"))
            && !names.iter().any(|name| name.contains("secret"))
    );
    let sent = files.seen.lock().unwrap().clone();
    assert!(
        sent.iter()
            .all(|(_, login)| login.as_ref().is_some_and(|login| login.starts_with("AWS4-HMAC-SHA256")))
    );
    running.end().await;
}

/// A server with one bucket of each storage, all with one file, and token servers of all.
async fn storages() -> (Files, std::net::SocketAddr) {
    let files = Files::default();
    let address = files.serve().await;
    files.put(
        "/bucket",
        "<ListBucketResult><Contents><Key>a.yaml</Key><ETag>e</ETag><Size>2</Size></Contents></ListBucketResult>",
    );
    files.put("/bucket/a.yaml", "{}");
    files.put_cloud_buckets();
    for place in ["/token", "/tenant/oauth2/v2.0/token"] {
        files.put(place, r#"{"access_token": "token-of-the-cloud"}"#);
    }
    files.put(
        "/sts/",
        "<Credentials><AccessKeyId>TEMPORARY</AccessKeyId><SecretAccessKey>temporary-secret</SecretAccessKey></Credentials>",
    );
    (files, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_of_each_provider_use_what_their_secret_holds() {
    let mut running = Running::prepare("clouds").await;
    let (files, address) = storages().await;
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let account = json!({
        "type": "service_account", "client_email": "me@example.test", "private_key": key.serialize_pem(),
        "token_uri": format!("http://{address}/token"),
    });
    let url = format!("http://{address}");
    let application = json!({"tenantId": "tenant", "clientId": "client", "authorityHost": url});
    let with = |object: &Value, key: &str, value: &str| {
        let mut object = object.clone();
        object[key] = value.into();
        object
    };
    let sts = |name: &str| json!({"provider": "ldap", "endpoint": format!("{url}/sts"), "secretRef": {"name": name}});
    // The Secret, further fields of the spec, and what the condition Ready has.
    let ready = "True Succeeded";
    for (name, provider, secret, more, state, text) in [
        ("gcp", "gcp", json!({"serviceaccount": account.to_string()}), json!({}), ready, ""),
        (
            "gcp-none",
            "gcp",
            Value::Null,
            json!({}),
            "False InvalidProviderConfiguration",
            "--allow-workload-identity",
        ),
        (
            "gcp-other",
            "gcp",
            json!({"x": "y"}),
            json!({}),
            "False AuthenticationFailed",
            "required fields 'serviceaccount'",
        ),
        (
            "gcp-odd",
            "gcp",
            json!({"serviceaccount": "private-words"}),
            json!({}),
            "False AuthenticationFailed",
            "not credentials as JSON",
        ),
        ("az-key", "azure", json!({"accountKey": "c2VjcmV0LWtleQ=="}), json!({}), ready, ""),
        ("az-sas", "azure", json!({"sasKey": "?sv=1&sig=secret-signature"}), json!({}), ready, ""),
        ("az-app", "azure", with(&application, "clientSecret", "client-secret"), json!({}), ready, ""),
        (
            "az-none",
            "azure",
            Value::Null,
            json!({}),
            "False InvalidProviderConfiguration",
            "--allow-workload-identity",
        ),
        (
            "az-id",
            "azure",
            json!({"clientId": "x"}),
            json!({}),
            "False InvalidProviderConfiguration",
            "--allow-workload-identity",
        ),
        (
            "az-empty",
            "azure",
            json!({"x": "y"}),
            json!({}),
            "False AuthenticationFailed",
            "requires a 'sasKey' or 'accountKey'",
        ),
        (
            "az-account",
            "azure",
            json!({"accountKey": "c2VjcmV0LWtleQ=="}),
            json!({"endpoint": format!("http://localhost:{}", address.port())}),
            "False AuthenticationFailed",
            "does not begin with the name of an account",
        ),
        (
            "az-locked",
            "azure",
            with(
                &with(&application, "clientCertificate", "pem"),
                "clientCertificatePassword",
                "password-of-it",
            ),
            json!({}),
            "False AuthenticationFailed",
            "clientCertificatePassword is not supported",
        ),
        (
            "az-denied",
            "azure",
            with(&with(&application, "tenantId", "other"), "clientSecret", "client-secret"),
            json!({}),
            "False AuthenticationFailed",
            "404 Not Found",
        ),
        (
            "gcp-plain",
            "gcp",
            json!({"serviceaccount": account.to_string()}),
            json!({"endpoint": "storage.example.test"}),
            "False AuthenticationFailed",
            "an endpoint with HTTPS only",
        ),
        (
            "az-plain",
            "azure",
            json!({"sasKey": "?sv=1&sig=secret-signature"}),
            json!({"endpoint": "http://acc.storage.example.test"}),
            "False AuthenticationFailed",
            "an endpoint with HTTPS only",
        ),
        (
            "az-blank",
            "azure",
            json!({"sasKey": " ?\n", "accountKey": "\n"}),
            json!({}),
            "False AuthenticationFailed",
            "requires a 'sasKey' or 'accountKey'",
        ),
        (
            "aws-none",
            "aws",
            Value::Null,
            json!({}),
            "False InvalidProviderConfiguration",
            "--allow-workload-identity",
        ),
        (
            "aws-keys",
            "aws",
            json!({"accesskey": "AKIDEXAMPLE", "secretkey": "secret-key"}),
            json!({}),
            ready,
            "",
        ),
        (
            "s3-half",
            "generic",
            json!({"accesskey": "AKIDEXAMPLE"}),
            json!({}),
            "False AuthenticationFailed",
            "'accesskey' and 'secretkey'",
        ),
        (
            "account",
            "aws",
            Value::Null,
            json!({"serviceAccountName": "default"}),
            "False InvalidProviderConfiguration",
            "spec.serviceAccountName is not supported",
        ),
        ("ldap", "generic", Value::Null, json!({"sts": sts("ldap-user")}), ready, ""),
        (
            "ldap-bad",
            "generic",
            Value::Null,
            json!({"sts": sts("ldap-half")}),
            "False AuthenticationFailed",
            "'password' not found",
        ),
        (
            "absent",
            "generic",
            Value::Null,
            json!({"bucketName": "other"}),
            "False BucketOperationFailed",
            "bucket 'other' not found",
        ),
    ] {
        if name == "ldap" {
            for (name, data) in [
                ("ldap-user", json!({"username": "me", "password": "ldap-password"})),
                ("ldap-half", json!({"username": "me"})),
            ] {
                running.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}));
            }
        }
        let mut spec = json!({
            "provider": provider, "bucketName": "bucket", "endpoint": address.to_string(), "insecure": true, "interval": "1h",
        });
        if provider == "azure" {
            (spec["bucketName"], spec["endpoint"]) = ("container".into(), url.as_str().into());
        }
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        if !secret.is_null() {
            running.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": secret}));
            spec["secretRef"] = json!({"name": name});
        }
        files.seen.lock().unwrap().clear();
        running.apply(&source("Bucket", name, &spec));
        let object = running.source_with("bucket", name, state);
        let said = message(&object, "Ready");
        assert!(said.contains(text), "{name}: {said}");
        for hidden in [
            "private-words",
            "secret-signature",
            "client-secret",
            "password-of-it",
            "ldap-password",
            "token-of-the-cloud",
        ] {
            assert!(!object["status"].to_string().contains(hidden), "{name}: {said}");
        }
        let seen = files.seen.lock().unwrap().clone();
        if state == ready {
            let login = |path: &str| {
                let found = seen.iter().find(|(seen, _)| seen.ends_with(path));
                found.unwrap_or_else(|| panic!("{name}: {path}: {seen:?}")).1.clone().unwrap_or_default()
            };
            let expected = match name {
                "gcp" | "az-app" => "Bearer token-of-the-cloud",
                "az-key" => "SharedKey 127:",
                "az-sas" => "",
                "ldap" => "AWS4-HMAC-SHA256 Credential=TEMPORARY/",
                _ => "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/",
            };
            assert!(login("a.yaml").starts_with(expected), "{name}: {seen:?}");
        } else if !["absent", "az-denied"].contains(&name) {
            // Another one is tried again meanwhile.
            assert!(seen.iter().all(|(path, _)| path.starts_with("/other/")), "{name}: {seen:?}");
        }
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_identity_of_the_process_goes_to_its_cloud_only() {
    let mut running = Running::prepare("identity").await;
    let storage = tempfile::tempdir().unwrap();
    running.allows_own_identity = true;
    running.start_with_sources(storage.path()).await;
    let other = "does not get the identity of this process";
    running.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "client"}, "stringData": {"clientId": "one-of-several"},
    }));
    for (name, provider, endpoint, region, state, text) in [
        ("aws", "aws", "storage.example.test", "eu-west-1", "False InvalidProviderConfiguration", other),
        (
            "aws-customer",
            "aws",
            "a1b2.execute-api.eu-west-1.amazonaws.com",
            "eu-west-1",
            "False InvalidProviderConfiguration",
            other,
        ),
        ("gcp", "gcp", "storage.example.test", "", "False InvalidProviderConfiguration", other),
        ("azure", "azure", "https://acc.example.test", "", "False InvalidProviderConfiguration", other),
        (
            "azure-client",
            "azure",
            "https://acc.example.test",
            "",
            "False InvalidProviderConfiguration",
            other,
        ),
        (
            "region",
            "aws",
            "s3.amazonaws.com",
            "evil.example/",
            "False AuthenticationFailed",
            "\"evil.example/\" is not the name of a region of AWS",
        ),
    ] {
        let mut spec = json!({
            "provider": provider, "bucketName": "bucket", "endpoint": endpoint, "region": region, "interval": "1h",
        });
        if name == "azure-client" {
            spec["secretRef"] = json!({"name": "client"});
        }
        running.apply(&source("Bucket", name, &spec));
        let object = running.source_with("bucket", name, state);
        assert!(message(&object, "Ready").contains(text), "{name}: {}", message(&object, "Ready"));
    }
    running.end().await;
}
