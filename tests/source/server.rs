//! An HTTP server that tests tell what to answer, well or badly; over TLS if they like.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};

/// What a path answers.
#[derive(Clone)]
pub(crate) enum Answer {
    /// The body, with an ETag by which it need not be sent again.
    Body(Vec<u8>),
    /// A status and no body.
    Status(u16),
    /// A status with a body.
    Refusal(u16, String),
    /// A redirect.
    Redirect(String),
    /// A status with headers and no body.
    Head(u16, Vec<(&'static str, String)>),
    /// Announces more than it sends.
    Truncated(Vec<u8>),
    /// Never ends, as fast as it can.
    Endless,
    /// Sends a byte now and then.
    Slow,
}

/// One request that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Whether a request may have an answer.
type Guard = Box<dyn Fn(&Asked) -> bool + Send>;

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    /// For paths without an answer of their own.
    otherwise: Option<Answer>,
    guard: Option<Guard>,
    asked: Vec<Asked>,
}

/// A server; it lives as long as the process.
pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    certificates: Option<Certificates>,
}

/// Which clients a TLS server takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    /// All, without asking for a certificate.
    Any,
    /// Those that show a certificate of the authority.
    Known,
    /// All; the header `(certificate)` of what was asked notes who showed a certificate.
    Noted,
}

/// Certificates of a server, as PEM.
#[derive(Clone)]
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) chain: String,
    pub(crate) key: String,
    /// A certificate and key that the server takes from clients.
    pub(crate) client: (String, String),
}

impl Certificates {
    pub(crate) fn new(expired: bool) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let leaf = |usage, past: bool| {
            let key = KeyPair::generate().unwrap();
            let mut params =
                CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
            params.extended_key_usages.push(usage);
            if past {
                params.not_before = rcgen::date_time_ymd(2000, 1, 1);
                params.not_after = rcgen::date_time_ymd(2001, 1, 1);
            }
            (params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
        };
        let (chain, key) = leaf(ExtendedKeyUsagePurpose::ServerAuth, expired);
        let client = leaf(ExtendedKeyUsagePurpose::ClientAuth, false);
        Self { authority: authority.pem(), chain, key, client }
    }

    fn config(&self, clients: Clients) -> Arc<rustls::ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes()).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let builder = if clients != Clients::Any {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
            let verifier =
                rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier =
                if clients == Clients::Noted { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        Arc::new(builder.with_single_cert(chain, key).unwrap())
    }
}

impl Server {
    pub(crate) fn plain() -> Self {
        Self::start(None, Clients::Any)
    }

    pub(crate) fn tls(certificates: Certificates, clients: bool) -> Self {
        Self::start(Some(certificates), if clients { Clients::Known } else { Clients::Any })
    }

    pub(crate) fn tls_for(certificates: Certificates, clients: Clients) -> Self {
        Self::start(Some(certificates), clients)
    }

    fn start(certificates: Option<Certificates>, clients: Clients) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let config = certificates.as_ref().map(|c| c.config(clients));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, config) = (Arc::clone(&shared), config.clone());
                thread::spawn(move || match config {
                    None => drop(serve(stream, &state, false)),
                    Some(config) => {
                        let mut connection = rustls::ServerConnection::new(config).unwrap();
                        let mut stream = stream;
                        // A client that does not like the certificate goes away.
                        drop(connection.complete_io(&mut stream));
                        let shown = connection.peer_certificates().is_some();
                        drop(serve(rustls::StreamOwned::new(connection, stream), &state, shown));
                    }
                });
            }
        });
        Self { url, state, certificates }
    }

    /// The authority that the server's certificate is of, as PEM.
    pub(crate) fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().unwrap()
    }

    pub(crate) fn answer(&self, path: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), answer);
    }

    /// The answer to every path without one of its own.
    pub(crate) fn answer_all(&self, answer: Answer) {
        self.state.lock().unwrap().otherwise = Some(answer);
    }

    pub(crate) fn body(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.answer(path, Answer::Body(body.into()));
    }

    /// From now on only who says so gets an answer: `Basic …`.
    pub(crate) fn require(&self, authorization: &str) {
        let login = authorization.to_owned();
        self.guard(move |asked| asked.headers.get("authorization") == Some(&login));
    }

    /// From now on only such requests get an answer.
    pub(crate) fn guard(&self, guard: impl Fn(&Asked) -> bool + Send + 'static) {
        self.state.lock().unwrap().guard = Some(Box::new(guard));
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }
}

fn serve(stream: impl Read + Write, state: &Mutex<State>, certificate: bool) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        match stream.read_line(&mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            // As Go's servers answer to TLS.
            Err(_) => return write!(stream.get_mut(), "HTTP/1.0 400 Bad Request\r\n\r\n"),
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        if certificate {
            headers.insert("(certificate)".to_owned(), String::new());
        }
        let size = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        let mut body = vec![0; size];
        stream.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let asked = Asked { path: path.clone(), headers: headers.clone(), body };
        let answer = {
            let mut state = state.lock().unwrap();
            let denied = state.guard.as_ref().is_some_and(|guard| !guard(&asked));
            state.asked.push(asked);
            match denied {
                true => Answer::Head(401, vec![("www-authenticate", "Basic realm=\"test\"".to_owned())]),
                false => {
                    let answer = state.answers.get(&path).or(state.otherwise.as_ref());
                    answer.cloned().unwrap_or(Answer::Status(404))
                }
            }
        };
        reply(stream.get_mut(), answer, headers.get("if-none-match"))?;
        stream.get_mut().flush()?;
    }
}

fn reply(out: &mut impl Write, answer: Answer, known: Option<&String>) -> std::io::Result<()> {
    match answer {
        Answer::Body(body) => {
            let digest = Sha256::digest(&body);
            let tag = format!("\"{:02x}{:02x}{:02x}\"", digest[0], digest[1], digest[2]);
            if known == Some(&tag) {
                return write!(out, "HTTP/1.1 304 Not Modified\r\netag: {tag}\r\n\r\n");
            }
            write!(out, "HTTP/1.1 200 OK\r\netag: {tag}\r\ncontent-length: {}\r\n\r\n", body.len())?;
            out.write_all(&body)
        }
        Answer::Status(status) => {
            let words = http::StatusCode::from_u16(status).unwrap();
            write!(out, "HTTP/1.1 {words}\r\ncontent-length: 0\r\n\r\n")
        }
        Answer::Refusal(status, body) => {
            let words = http::StatusCode::from_u16(status).unwrap();
            write!(out, "HTTP/1.1 {words}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        }
        Answer::Redirect(to) => {
            write!(out, "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
        }
        Answer::Head(status, headers) => {
            let words = http::StatusCode::from_u16(status).unwrap();
            let lines: String = headers.iter().map(|(k, v)| format!("{k}: {v}\r\n")).collect();
            write!(out, "HTTP/1.1 {words}\r\n{lines}content-length: 0\r\n\r\n")
        }
        Answer::Truncated(body) => {
            write!(out, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len() + 1000)?;
            out.write_all(&body)?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        Answer::Endless => {
            write!(out, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            let chunk = vec![b'#'; 1 << 20];
            loop {
                out.write_all(&chunk)?;
            }
        }
        Answer::Slow => {
            write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")?;
            loop {
                out.write_all(b"#")?;
                out.flush()?;
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Nothing listens there.
pub(crate) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    format!("http://{address}")
}

/// Something listens there that speaks no HTTP.
pub(crate) fn babble() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 1024];
            // Whatever was asked, the answer is the same.
            drop(TcpStream::read(&mut stream, &mut buffer));
            drop(stream.write_all(b"220 mail.example.test ready\r\n"));
        }
    });
    format!("http://{address}")
}
