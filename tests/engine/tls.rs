//! A server on loopback that API servers come to over TLS: as to a kubelet, or to a webhook.

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::Arc,
    thread,
};

/// Answers each request by its path and body with a text; the port, and the certificate in PEM form.
pub(crate) fn serve(answer: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> (u16, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let pem = certificate.pem();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let (config, answer) = (Arc::new(config), Arc::new(answer));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, answer) = (Arc::clone(&config), Arc::clone(&answer));
            thread::spawn(move || {
                let connection = rustls::ServerConnection::new(config).unwrap();
                let mut stream = BufReader::new(rustls::StreamOwned::new(connection, stream));
                let (mut line, mut target, mut length) = (String::new(), String::new(), 0);
                while stream.read_line(&mut line).is_ok_and(|n| n > 2) {
                    let lower = line.to_lowercase();
                    if target.is_empty() {
                        target = line.split(' ').nth(1).unwrap_or_default().to_owned();
                    } else if let Some(given) = lower.strip_prefix("content-length:") {
                        length = given.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                // Who only looks whether somebody is there says nothing.
                if stream.read_exact(&mut body).is_err() || target.is_empty() {
                    return;
                }
                let text = answer(&target, &String::from_utf8_lossy(&body));
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    text.len()
                );
                // A client that is gone needs no answer.
                drop(stream.get_mut().write_all(format!("{head}{text}").as_bytes()));
                drop(stream.get_mut().flush());
            });
        }
    });
    (port, pem)
}
