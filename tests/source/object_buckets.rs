//! Whole buckets of S3, Google and Azure: their lists and objects, and servers that check who asks.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{RSA_PSS_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, PublicKeyData as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_fetch::http::{Http, Tls};
use windlass_fetch::location::Location;
use windlass_fetch::{
    AZURE_STORAGE, AzureAccess, CloudCredentials, EntraApplication, EntraProof, ObjectBucket, ObjectStorage,
    S3Keys,
};

use super::bucket_credentials::is_signed;
use super::server::{Answer, Asked, Server};

fn client() -> Http {
    Http::new(Duration::from_secs(10), false)
}

/// The keys of a bucket, the content of one of its objects, and whether another one exists; or the error.
async fn read(
    server: &Server,
    storage: ObjectStorage,
    prefix: &str,
) -> Result<(Vec<String>, String, bool), String> {
    let (http, tls) = (client(), Tls::default());
    let endpoint = Location::parse(&server.url).unwrap();
    let bucket = ObjectBucket { http: &http, tls: &tls, endpoint, name: "charts", storage };
    let list = bucket.list(prefix).await.map_err(|e| e.to_string())?;
    let keys = list.iter().map(|o| format!("{} {} {}", o.key, o.etag, o.size)).collect();
    let found = bucket.get("web/a b.yaml", 100).await.map_err(|e| e.to_string())?.unwrap();
    let other = bucket.get("none", 100).await.map_err(|e| e.to_string())?;
    Ok((keys, String::from_utf8(found.to_vec()).unwrap(), other.is_some()))
}

/// The fields of a form.
fn form(text: &str) -> BTreeMap<String, String> {
    let decoded = |s: &str| percent_decode_str(s).decode_utf8().unwrap().into_owned();
    text.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (k.to_owned(), decoded(v))).collect()
}

#[tokio::test]
async fn buckets_of_s3_are_read_with_temporary_keys() {
    let (server, tokens) = (Server::plain(), Server::plain());
    tokens.body(
        "/sts/",
        "<AssumeRoleWithLDAPIdentityResponse><AssumeRoleWithLDAPIdentityResult><Credentials><AccessKeyId>id</AccessKeyId>\
         <SecretAccessKey>key</SecretAccessKey><SessionToken>temporary</SessionToken></Credentials>\
         </AssumeRoleWithLDAPIdentityResult></AssumeRoleWithLDAPIdentityResponse>",
    );
    let (http, tls) = (client(), Tls::default());
    let endpoint = Location::parse(&format!("{}/sts", tokens.url)).unwrap();
    let keys = CloudCredentials(&http).ldap(&tls, &endpoint, ("me", "my&secret")).await.unwrap();
    let asked = form(&tokens.asked().remove(0).body);
    assert_eq!(asked["Action"], "AssumeRoleWithLDAPIdentity");
    assert_eq!((&*asked["LDAPUsername"], &*asked["LDAPPassword"]), ("me", "my&secret"));
    assert_eq!(asked["Version"], "2011-06-15");
    server.body(
        "/charts?encoding-type=url&list-type=2&prefix=web%2F",
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t=</NextContinuationToken>\
         <Contents><Key>web/b</Key><ETag>\"e2\"</ETag><Size>1</Size></Contents></ListBucketResult>",
    );
    server.body(
        "/charts?continuation-token=t%3D&encoding-type=url&list-type=2&prefix=web%2F",
        "<ListBucketResult><Contents><Key>web%2Fa+b.yaml</Key><ETag>\"e1\"</ETag><Size>4</Size></Contents></ListBucketResult>",
    );
    server.body("/charts/web/a%20b.yaml", "text");
    server.guard(|asked| {
        is_signed(asked, "id", "key", "eu-west-1") && asked.headers["x-amz-security-token"] == "temporary"
    });
    let storage = |keys: &S3Keys| ObjectStorage::s3("eu-west-1", Some(keys.clone())).unwrap();
    let (list, text, other) = read(&server, storage(&keys), "web/").await.unwrap();
    assert_eq!(list, ["web/a b.yaml e1 4", "web/b e2 1"]);
    assert_eq!((text.as_str(), other), ("text", false));
    let wrong = S3Keys { secret: "another".into(), ..keys };
    let error = read(&server, storage(&wrong), "web/").await.unwrap_err();
    assert!(error.contains("401 Unauthorized"), "{error}");
    server.guard(|_| true);
    let error = read(&server, ObjectStorage::s3("r", None).unwrap(), "no").await.unwrap_err();
    assert_eq!(error, "bucket 'charts' not found");
    for answer in ["<x/>", "no XML"] {
        tokens.body("/sts/", answer);
        let error = CloudCredentials(&http).ldap(&tls, &endpoint, ("me", "my&secret")).await.err().unwrap();
        let error = error.to_string();
        assert!(
            error.ends_with("answered without credentials for AWS") && !error.contains("secret"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn buckets_of_google_are_read_with_the_token_of_an_account() {
    let (server, tokens) = (Server::plain(), Server::plain());
    tokens.body("/token", "{\"access_token\": \"temporary\"}");
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let account = json!({"type": "service_account", "client_email": "me@example.test", "private_key": key.serialize_pem(),
        "private_key_id": "k1", "token_uri": format!("{}/token", tokens.url)});
    let http = client();
    let credentials = CloudCredentials(&http);
    let token = credentials.google("the Secret", account.to_string().as_bytes()).await.unwrap();
    let fields = "fields=items(name,etag,size),nextPageToken";
    server.body(
        &format!("/storage/v1/b/charts/o?{fields}"),
        json!({"nextPageToken": "a/b", "items": [{"name": "web/b", "etag": "e2=", "size": "1"}]}).to_string(),
    );
    server.body(
        &format!("/storage/v1/b/charts/o?{fields}&pageToken=a%2Fb"),
        json!({"items": [{"name": "web/a b.yaml", "etag": "e1", "size": "4"}]}).to_string(),
    );
    server.body("/storage/v1/b/charts/o/web%2Fa%20b.yaml?alt=media", "text");
    server.require("Bearer temporary");
    let (list, text, other) = read(&server, ObjectStorage::google(token).unwrap(), "").await.unwrap();
    assert_eq!(list, ["web/a b.yaml e1 4", "web/b e2= 1"]);
    assert_eq!((text.as_str(), other), ("text", false));
    let error = read(&server, ObjectStorage::google("other".into()).unwrap(), "").await.unwrap_err();
    assert!(error.contains("401 Unauthorized") && !error.contains("other"), "{error}");
    // Nobody else gets the token.
    let elsewhere = Server::plain();
    let place = format!("/storage/v1/b/charts/o?{fields}");
    server.answer(&place, Answer::Redirect(elsewhere.url.clone()));
    let error = read(&server, ObjectStorage::google("temporary".into()).unwrap(), "").await.unwrap_err();
    assert!(error.contains("would take credentials to another server"), "{error}");
    assert!(elsewhere.asked().is_empty());
    for (wrong, want) in [
        (
            json!({"type": "external_account"}),
            "the Secret: credentials of type \"external_account\" are not understood",
        ),
        (
            json!({"type": "service_account", "private_key": "secret-text"}),
            "the Secret: private_key is not an RSA key in PEM",
        ),
        (
            json!({"type": "authorized_user", "token_uri": "http://example.test/"}),
            "the Secret: token_uri is not HTTPS",
        ),
    ] {
        let error =
            credentials.google("the Secret", wrong.to_string().as_bytes()).await.unwrap_err().to_string();
        assert!(error.contains(want) && !error.contains("secret-text"), "{error}");
    }
}

/// Whether a request is signed by an account's key as Azure's documentation has it (Shared Key).
fn has_shared_key(asked: &Asked, account: &str, key: &str) -> bool {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let own: String = asked
        .headers
        .iter()
        .filter(|(name, _)| name.starts_with("x-ms-"))
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    let mut resource = format!("/{account}{path}");
    for (name, value) in form(query) {
        resource.push_str(&format!("\n{name}:{value}"));
    }
    let text = format!("GET\n\n\n\n\n\n\n\n\n\n\n\n{own}{resource}");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(key).unwrap());
    let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    let wanted = format!("SharedKey {account}:{signature}");
    asked.headers.contains_key("x-ms-date")
        && asked.headers.contains_key("x-ms-version")
        && asked.headers.get("authorization") == Some(&wanted)
}

/// Fills a container.
fn container(server: &Server, more: &str) {
    let first = "<EnumerationResults><Blobs><Blob><Name>web/b</Name><Properties><Etag>0x2</Etag><Content-Length>1</Content-Length>\
        </Properties></Blob></Blobs><NextMarker>m/1</NextMarker></EnumerationResults>";
    let second = "<EnumerationResults><Blobs><Blob><Name>web/a b.yaml</Name><Properties><Etag>0x1</Etag>\
        <Content-Length>4</Content-Length></Properties></Blob></Blobs><NextMarker/></EnumerationResults>";
    let (end, alone) = match more {
        "" => (String::new(), String::new()),
        more => (format!("&{more}"), format!("?{more}")),
    };
    server.body(&format!("/charts?comp=list&prefix=web%2F&restype=container{end}"), first);
    server.body(&format!("/charts?comp=list&marker=m%2F1&prefix=web%2F&restype=container{end}"), second);
    server.body(&format!("/charts/web/a%20b.yaml{alone}"), "text");
}

#[tokio::test]
async fn containers_of_azure_are_read_by_key_signature_and_token() {
    const KEY: &str = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA==";
    let server = Server::plain();
    container(&server, "");
    server.guard(|asked| has_shared_key(asked, "acc", KEY));
    let by_key = |key: &str| {
        ObjectStorage::azure(AzureAccess::Key { account: "acc".to_owned(), key: key.into() }).unwrap()
    };
    let expected =
        (vec!["web/a b.yaml \"0x1\" 4".to_owned(), "web/b \"0x2\" 1".to_owned()], "text".to_owned(), false);
    assert_eq!(read(&server, by_key(KEY), "web/").await, Ok(expected.clone()));
    let error = read(&server, by_key("YW5vdGhlcg=="), "web/").await.unwrap_err();
    assert!(error.contains("401 Unauthorized"), "{error}");
    let error = read(&server, by_key("not base64!"), "web/").await.unwrap_err();
    assert!(error.contains("failed to decode account key") && !error.contains("not base64!"), "{error}");

    // A shared access signature is a part of the URL, and of no message.
    let server = Server::plain();
    container(&server, "sv=2023&sig=secret%2Bsig");
    let sas = |text: &str| ObjectStorage::azure(AzureAccess::Sas(text.into())).unwrap();
    assert_eq!(read(&server, sas("?sv=2023&sig=secret%2Bsig\n"), "web/").await, Ok(expected.clone()));
    server.answer_all(Answer::Status(403));
    let error = read(&server, sas("sv=2023&sig=other-secret"), "web/").await.unwrap_err();
    assert!(
        error.contains("403 Forbidden") && error.contains("***") && !error.contains("other-secret"),
        "{error}"
    );
    let error = read(&server, sas(" ?\n"), "web/").await.unwrap_err();
    assert!(error.contains("403 Forbidden") && !error.contains("***"), "an empty one is nowhere: {error}");
    let elsewhere = Server::plain();
    server.answer_all(Answer::Redirect(elsewhere.url.clone()));
    let error = read(&server, sas("sv=2023&sig=other-secret"), "web/").await.unwrap_err();
    assert!(!error.contains("other-secret") && elsewhere.asked().is_empty(), "{error}");

    let server = Server::plain();
    container(&server, "");
    server.require("Bearer temporary");
    let token = |text: &str| ObjectStorage::azure(AzureAccess::Token(text.into())).unwrap();
    assert_eq!(read(&server, token("temporary"), "web/").await, Ok(expected));
    assert!(server.asked().iter().all(|asked| asked.headers.contains_key("x-ms-version")));
}

#[tokio::test]
async fn applications_of_azure_prove_who_they_are() {
    let (tokens, http) = (Server::plain(), client());
    tokens.body("/my-tenant/oauth2/v2.0/token", "{\"access_token\": \"temporary\"}");
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let certificate = CertificateParams::new(["app.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let pem = format!("{}{}", key.serialize_pem(), certificate.pem()).into_bytes();
    let application = |proof: EntraProof| EntraApplication {
        authority: format!("{}/", tokens.url),
        tenant: "my-tenant".to_owned(),
        client: "my-client".to_owned(),
        proof,
    };
    let credentials = CloudCredentials(&http);
    let ask = async |proof: EntraProof| {
        let token = credentials.entra(&application(proof), AZURE_STORAGE).await.unwrap();
        assert_eq!(token.expose(), "temporary");
        let asked = form(&tokens.asked().remove(0).body);
        assert_eq!((&*asked["grant_type"], &*asked["client_id"]), ("client_credentials", "my-client"));
        assert_eq!(asked["scope"], "https://storage.azure.com/.default");
        asked
    };
    assert_eq!(ask(EntraProof::Secret("s&s".into())).await["client_secret"], "s&s");
    assert_eq!(ask(EntraProof::Assertion("a.b.c".into())).await["client_assertion"], "a.b.c");
    for sends_chain in [false, true] {
        let asked = ask(EntraProof::Certificate { pem: pem.clone(), sends_chain }).await;
        assert_eq!(asked["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        let (signed, signature) = asked["client_assertion"].rsplit_once('.').unwrap();
        let json =
            |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
        let (head, claims) = signed.split_once('.').unwrap();
        let (head, claims) = (json(head), json(claims));
        assert_eq!(head["x5t#S256"], URL_SAFE_NO_PAD.encode(Sha256::digest(certificate.der())));
        assert_eq!(head["x5c"][0].is_string(), sends_chain, "{head}");
        assert_eq!((&claims["iss"], &claims["sub"]), (&"my-client".into(), &"my-client".into()));
        assert_eq!(claims["aud"], format!("{}/my-tenant/oauth2/v2.0/token", tokens.url));
        UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, key.subject_public_key_info())
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .expect("the certificate's signature");
    }
    let odd = EntraProof::Certificate { pem: b"secret".to_vec(), sends_chain: false };
    let error = credentials.entra(&application(odd), AZURE_STORAGE).await.unwrap_err().to_string();
    assert_eq!(error, "clientCertificate is not a certificate in PEM");
    tokens.answer_all(Answer::Status(401));
    let other =
        EntraApplication { tenant: "other".into(), ..application(EntraProof::Secret("my-secret".into())) };
    let error = credentials.entra(&other, AZURE_STORAGE).await.unwrap_err().to_string();
    assert!(error.contains("answered 401 Unauthorized") && !error.contains("my-secret"), "{error}");
    let plain = EntraApplication { authority: "http://example.test".to_owned(), ..other };
    let error = credentials.entra(&plain, AZURE_STORAGE).await.unwrap_err().to_string();
    assert_eq!(error, "authorityHost is not HTTPS");
}
