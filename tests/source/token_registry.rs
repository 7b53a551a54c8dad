//! A real registry that takes tokens, the server of these tokens, and the registry's notes of what became of its blobs.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use windlass_testing::RegistryServer;

use super::server::{Asked, Server};

const SERVICE: &str = "registry";
const ISSUER: &str = "test issuer";

/// A registry, whose tokens are for the scopes that were granted.
pub(crate) struct TokenRegistry {
    pub(crate) host: String,
    _registry: RegistryServer,
    /// Serves tokens, and takes the registry's notes.
    server: Server,
    key: EcdsaKeyPair,
    /// The certificate of the key, in base64.
    certificate: String,
}

impl TokenRegistry {
    pub(crate) fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["token.example.com".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let server = Server::plain();
        server.body("/notes", "");
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("tokens.pem");
        std::fs::write(&bundle, certificate.pem()).unwrap();
        let more = format!(
            "auth: {{token: {{realm: \"{url}/token\", service: {SERVICE}, issuer: {ISSUER}, rootcertbundle: \"{}\"}}}}\n\
             notifications: {{endpoints: [{{name: notes, url: \"{url}/notes\", timeout: 5s, threshold: 5, backoff: 100ms}}]}}\n",
            bundle.display(),
            url = server.url,
        );
        let registry = RegistryServer::start(dir, "", &more).unwrap();
        Self {
            host: registry.host().to_owned(),
            _registry: registry,
            key: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der()).unwrap(),
            certificate: STANDARD.encode(certificate.der()),
            server,
        }
    }

    /// Whoever asks for exactly these scopes (`repository:NAME:ACTIONS`) gets a token for those of `granted`.
    pub(crate) fn grant(&self, asked: &[&str], granted: &[&str]) {
        let escape = |scope: &&str| scope.replace(':', "%3A").replace('/', "%2F").replace(',', "%2C");
        let scopes: String = asked.iter().map(|scope| format!("&scope={}", escape(scope))).collect();
        let answer = json!({"token": self.token(granted)});
        self.server.body(&format!("/token?service={SERVICE}{scopes}"), answer.to_string());
    }

    fn token(&self, granted: &[&str]) -> String {
        let access = |scope: &&str| {
            let [kind, name, actions] = scope.split(':').collect::<Vec<_>>()[..] else { panic!("{scope}") };
            json!({"type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>()})
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [self.certificate]});
        let claims = json!({
            "iss": ISSUER, "sub": "me", "aud": SERVICE, "exp": now + 600, "nbf": now - 60, "iat": now - 60, "jti": "1",
            "access": granted.iter().map(access).collect::<Vec<_>>(),
        });
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// What was asked of the token server, and noted by the registry, since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.server.asked()
    }
}

/// The blobs of a repository that the registry noted: what was done, the digest, and the repository that it was mounted from.
pub(crate) fn noted(asked: &[Asked], repository: &str) -> Vec<(String, String, String)> {
    let bodies = asked.iter().filter(|asked| asked.path == "/notes").map(|asked| asked.body.as_str());
    let notes = bodies.map(|body| serde_json::from_str::<Value>(body).unwrap());
    let events = notes.flat_map(|note| note["events"].as_array().cloned().unwrap_or_default());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = events.filter(|event| event["target"]["repository"] == repository);
    let one = |event: Value| {
        let target = &event["target"];
        (text(&event["action"]), text(&target["digest"]), text(&target["fromRepository"]))
    };
    of.map(one).collect()
}
