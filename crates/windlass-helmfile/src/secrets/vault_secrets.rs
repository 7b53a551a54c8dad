//! `vault`: secrets of HashiCorp Vault's key-value engines, versions 1 and 2.
//!
//! Owns logins and which engine has a path; each is asked for once in a run. Vault's variables are read: `VAULT_ADDR`,
//! `VAULT_NAMESPACE`, `VAULT_TOKEN`, `VAULT_CACERT`, `VAULT_CLIENT_CERT`, `VAULT_CLIENT_KEY`, `VAULT_SKIP_VERIFY`. The user's own
//! token, in `VAULT_TOKEN` or a file, is for `VAULT_ADDR`, if that is set.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chart_compat::go::parse_bool;
use http::{HeaderName, Method, StatusCode};
use percent_encoding::utf8_percent_encode;
use serde_json::{Value as Json, json};

use super::secret_reference::Reference;
use super::{Document, Remote, local_secrets};
use crate::error::HelmfileError;
use helmfile_compat::document;
use helmfile_compat::value::Value;
use windlass_base::bounded_json;
use windlass_base::redact::SecretText;
use windlass_fetch::helm_paths::known_home;
use windlass_fetch::http::{Credentials, Http, Pem, Request, Tls};
use windlass_fetch::location::{Location, PATH};
use windlass_fetch::once_map::OnceMap;

/// The token of a Pod's service account.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// The size limit of an answer, in bytes: a secret has at most 1 MiB.
const MAX_ANSWER: u64 = 16 << 20;

/// Logins of a run, by the parameters that they depend on.
pub(super) type VaultSessions = OnceMap<Vec<Option<String>>, Arc<Session>>;

/// A server and a login.
pub(super) struct Session {
    server: Location,
    namespace: Option<String>,
    tls: Tls,
    token: Option<SecretText>,
    /// Mounts of engines, with a slash at their ends, and whether they are of version 2.
    mounts: Mutex<Vec<(String, bool)>>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A parameter, or else a variable.
fn setting(reference: &Reference, name: &str, other: &str) -> Option<String> {
    reference.parameter(name).or_else(|| variable(other))
}

/// The map at a path; without keys, the value of its last part.
pub(super) async fn read(remote: &Remote, reference: &Reference) -> Result<Document, HelmfileError> {
    const OF_LOGIN: [&str; 12] = [
        "address",
        "proto",
        "host",
        "namespace",
        "auth_method",
        "token_env",
        "token_file",
        "role_id",
        "secret_id",
        "username",
        "password_env",
        "password_file",
    ];
    let parameters: Vec<Option<String>> = OF_LOGIN.iter().map(|name| reference.parameter(name)).collect();
    let http = &remote.http;
    let open = async { Session::open(http, reference).await.map(Arc::new) };
    let session = remote.logins.vault.get(parameters, open).await?;
    let path = reference.path.trim_matches('/');
    let (path, key) = match path.rsplit_once('/') {
        Some((path, key)) if reference.keys.is_empty() => (path, Some(key)),
        None if reference.keys.is_empty() => {
            return Err(HelmfileError::Secret("the path has the form MOUNT/PATH/KEY".to_owned()));
        }
        _ => (path, None),
    };
    let data = session.secret(http, path, reference.parameter("version").as_deref()).await?;
    // JSON is YAML; its numbers become those of values.
    let mut map = document::map(&data.to_string())
        .map_err(|_| HelmfileError::Secret("the secret is not a map".to_owned()))?;
    let Some(key) = key else { return Ok(Document::Map(map)) };
    let value = map
        .remove(key)
        .ok_or_else(|| HelmfileError::Secret(format!("key {key:?} does not exist in {path:?}")))?;
    let text = match value {
        Value::String(text) => text,
        other => other.go_text(),
    };
    match reference.parameter("decode").as_deref() {
        None | Some("raw") => Ok(Document::Text(text)),
        Some("base64") => local_secrets::from_base64(&text).map(Document::Text),
        Some(_) => Err(HelmfileError::Secret("decode is raw or base64".to_owned())),
    }
}

impl Session {
    /// Logs in.
    async fn open(http: &Http, reference: &Reference) -> Result<Self, HelmfileError> {
        let proto = reference.parameter("proto").unwrap_or_else(|| "https".to_owned());
        let of_host = || reference.parameter("host").map(|host| format!("{proto}://{host}"));
        let address = reference.parameter("address").or_else(of_host).or_else(|| variable("VAULT_ADDR"));
        let address = address.ok_or_else(|| {
            HelmfileError::Secret("name the server: set VAULT_ADDR or the parameter address".to_owned())
        })?;
        let server = Location::parse(address.trim_end_matches('/')).ok();
        let server = server.filter(|server| matches!(server.scheme.as_str(), "http" | "https"));
        let server = server
            .ok_or_else(|| HelmfileError::Secret("the address is not a URL of http or https".to_owned()))?;
        let pem = |name: &str| variable(name).map(|path| Pem::File(PathBuf::from(path)));
        let tls = Tls {
            ca: pem("VAULT_CACERT"),
            certificate: pem("VAULT_CLIENT_CERT"),
            key: pem("VAULT_CLIENT_KEY"),
            insecure: variable("VAULT_SKIP_VERIFY").is_some_and(|value| parse_bool(&value) == Some(true)),
        };
        let namespace = setting(reference, "namespace", "VAULT_NAMESPACE");
        let mut session = Self { server, namespace, tls, token: None, mounts: Mutex::default() };
        let method =
            setting(reference, "auth_method", "VAULT_AUTH_METHOD").unwrap_or_else(|| "token".to_owned());
        let mount = |name: &str, default: &str| variable(name).unwrap_or_else(|| default.to_owned());
        let role = setting(reference, "role_id", "VAULT_ROLE_ID").unwrap_or_default();
        let token = match method.as_str() {
            "token" => session.own_token(reference)?,
            "approle" => {
                let secret = match reference.parameter("secret_id") {
                    Some(secret) => secret,
                    None => {
                        session.check_own_server()?;
                        variable("VAULT_SECRET_ID").unwrap_or_default()
                    }
                };
                let path = format!("{}/login", mount("VAULT_LOGIN_MOUNT_POINT", "approle"));
                session.login(http, &path, json!({ "role_id": role, "secret_id": secret })).await?
            }
            "kubernetes" => {
                let file =
                    variable("VAULT_KUBERNETES_JWT_TOKEN_PATH").unwrap_or_else(|| POD_TOKEN.to_owned());
                session.check_own_server()?;
                let jwt = of_file(Path::new(&file))?;
                let path = format!("{}/login", mount("VAULT_KUBERNETES_MOUNT_POINT", "kubernetes"));
                session.login(http, &path, json!({ "role": role, "jwt": jwt })).await?
            }
            "userpass" => {
                let user = setting(reference, "username", "VAULT_USERNAME")
                    .ok_or_else(|| HelmfileError::Secret("username is not set".to_owned()))?;
                if ["password_env", "password_file"].iter().all(|name| reference.parameter(name).is_none()) {
                    session.check_own_server()?;
                }
                let password = match setting(reference, "password_env", "VAULT_PASSWORD_ENV") {
                    Some(name) => variable(&name)
                        .ok_or_else(|| HelmfileError::Secret(format!("password_env: {name} is not set")))?,
                    None => {
                        let file = setting(reference, "password_file", "VAULT_PASSWORD_FILE");
                        of_file(Path::new(&file.ok_or_else(|| {
                            HelmfileError::Secret("set password_env or password_file".to_owned())
                        })?))?
                    }
                };
                let path = format!("{}/login/{user}", mount("VAULT_LOGIN_MOUNT_POINT", "userpass"));
                session.login(http, &path, json!({ "password": password })).await?
            }
            other => {
                return Err(HelmfileError::Secret(format!(
                    "the auth_method {other:?} is not supported; there are token, approle, kubernetes and userpass"
                )));
            }
        };
        session.token = Some(token.into());
        Ok(session)
    }

    /// A token that the reference names, or else the user's own.
    fn own_token(&self, reference: &Reference) -> Result<String, HelmfileError> {
        if let Some(file) = reference.parameter("token_file") {
            return of_file(Path::new(&file));
        }
        if let Some(name) = reference.parameter("token_env") {
            return variable(&name)
                .ok_or_else(|| HelmfileError::Secret(format!("token_env: {name} is not set")));
        }
        self.check_own_server()?;
        if let Some(token) = variable("VAULT_TOKEN") {
            return Ok(token);
        }
        let own = || known_home().map(|home| home.join(".vault-token"));
        let file = variable("VAULT_TOKEN_FILE").map(PathBuf::from).or_else(own);
        let file = file.ok_or_else(|| {
            HelmfileError::Secret(
                "there is no token: none of VAULT_TOKEN, VAULT_TOKEN_FILE and HOME is set".to_owned(),
            )
        })?;
        of_file(&file).map_err(|error| {
            HelmfileError::Secret(format!("there is no token: VAULT_TOKEN is not set, and {error}"))
        })
    }

    /// Refuses a server other than that of `VAULT_ADDR`, which the user's own credentials are for.
    fn check_own_server(&self) -> Result<(), HelmfileError> {
        let Some(address) = variable("VAULT_ADDR") else { return Ok(()) };
        match Location::parse(&address) {
            Ok(own) if own.same_origin(&self.server) => Ok(()),
            _ => Err(HelmfileError::Secret(format!(
                "your credentials are for VAULT_ADDR, and not for {}; name others in the reference, such as by token_env or token_file",
                self.server.origin()
            ))),
        }
    }

    /// Logs in at a path below `auth/`, and returns the token.
    async fn login(&self, http: &Http, path: &str, body: Json) -> Result<String, HelmfileError> {
        let path = format!("auth/{}", path.trim_start_matches('/'));
        let answer = self.call(http, Method::POST, &path, None, &body.to_string()).await?;
        let answer = answer.ok_or_else(|| HelmfileError::Secret(format!("there is no login at {path}")))?;
        let token = answer["auth"]["client_token"].as_str();
        token
            .map(str::to_owned)
            .ok_or_else(|| HelmfileError::Secret(format!("{path} answered without a token")))
    }

    /// The data of a secret.
    async fn secret(&self, http: &Http, path: &str, version: Option<&str>) -> Result<Json, HelmfileError> {
        let (mount, is_v2) = self.engine(http, path).await?;
        let full = match path.strip_prefix(mount.as_str()) {
            Some(rest) if is_v2 => format!("{mount}data/{rest}"),
            _ if is_v2 => format!("{mount}data"),
            _ => path.to_owned(),
        };
        if version.is_some_and(|version| !version.bytes().all(|b| b.is_ascii_digit())) {
            return Err(HelmfileError::Secret("version is not a number".to_owned()));
        }
        let query = version.map(|version| format!("version={version}"));
        let answer = self.call(http, Method::GET, &full, query, "").await?;
        let mut answer =
            answer.ok_or_else(|| HelmfileError::Secret(format!("no secret found for path {path:?}")))?;
        let mut data = answer["data"].take();
        if is_v2 && data["data"].is_object() {
            data = data["data"].take();
        }
        if data.is_object() {
            Ok(data)
        } else {
            Err(HelmfileError::Secret(format!("no secret found for path {path:?}")))
        }
    }

    /// The mount of the engine that has a path, and whether it is of version 2. Old servers do not tell.
    async fn engine(&self, http: &Http, path: &str) -> Result<(String, bool), HelmfileError> {
        let whole = format!("{path}/");
        if let Some(known) = self.mounts().iter().find(|(mount, _)| whole.starts_with(mount)) {
            return Ok(known.clone());
        }
        let question = format!("sys/internal/ui/mounts/{path}");
        let answer = self.call(http, Method::GET, &question, None, "").await?.unwrap_or_default();
        let data = &answer["data"];
        let mount = data["path"].as_str().filter(|mount| !mount.is_empty());
        let mount = mount.map(|mount| format!("{}/", mount.trim_matches('/')));
        let found = (mount.unwrap_or(whole), data["options"]["version"].as_str() == Some("2"));
        self.mounts().push(found.clone());
        Ok(found)
    }

    fn mounts(&self) -> MutexGuard<'_, Vec<(String, bool)>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request; `None` if nothing is at the path.
    async fn call(
        &self,
        http: &Http,
        method: Method,
        path: &str,
        query: Option<String>,
        body: &str,
    ) -> Result<Option<Json>, HelmfileError> {
        let path = format!("{}/v1/{}", self.server.path, utf8_percent_encode(path, PATH));
        let url = self.server.with_path(path);
        let url = query.map_or_else(|| url.clone(), |query| url.with_query(query));
        let mut headers = vec![(HeaderName::from_static("x-vault-request"), "true".to_owned())];
        if let Some(namespace) = &self.namespace {
            headers.push((HeaderName::from_static("x-vault-namespace"), namespace.clone()));
        }
        let token = self.token.as_ref();
        let token = token.map(|token| (HeaderName::from_static("x-vault-token"), token.expose().to_owned()));
        let request = Request {
            method,
            headers,
            credentials: token.map(|token| Credentials::Signed(vec![token])),
            confined: true,
            body: body.to_owned().into(),
            ..Request::get(url.clone(), &self.tls, MAX_ANSWER)
        };
        let answer = http.send(request).await.map_err(HelmfileError::cause)?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => {
                let bytes = answer.bytes().await.map_err(HelmfileError::cause)?;
                // The parser's error would quote the answer.
                let json = bounded_json::from_slice(&bytes);
                json.map(Some).map_err(|_| HelmfileError::Secret(format!("{url} did not answer with JSON")))
            }
            status => {
                let why: Json = bounded_json::from_slice(&answer.complaint().await).unwrap_or_default();
                let why = why["errors"][0].as_str().unwrap_or_default().trim().to_owned();
                let text = format!("{url} answered {status}: {why}");
                Err(HelmfileError::Secret(text.trim_end_matches(": ").to_owned()))
            }
        }
    }
}

/// The text of a file without blanks around it.
fn of_file(path: &Path) -> Result<String, HelmfileError> {
    let shown = path.display();
    let bytes = local_secrets::read(path).map_err(|error| error.within(shown.to_string()))?;
    let text =
        String::from_utf8(bytes).map_err(|_| HelmfileError::Secret(format!("{shown} is not UTF-8 text")))?;
    Ok(text.trim().to_owned())
}
