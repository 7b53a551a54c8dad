//! Webhooks under attack from other addresses: the API server is answered in time, memory stays within the chart's limit, and
//! nobody makes metrics grow. Attackers come from 127.1.0.0/16, the API server from 127.0.0.1.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;
use windlass_cluster::{ApplyOptions, Cluster, ConnectOptions, Gvk, ObjectRef, Validation};

use crate::support::{Modules, ON_LOOPBACK, Operator, control_plane, object};

/// What the chart grants, in KiB.
const MEMORY_LIMIT: u64 = 256 << 10;
/// How long a head may take (`serve::listen`), and what a loaded machine adds.
const CUT_OFF: Duration = Duration::from_secs(10 + 5);

/// How each answer to an unknown path ends.
const END: &[u8] = b"or still comes up";

/// Where webhooks listen, and whom their clients trust.
#[derive(Clone)]
struct Target {
    address: SocketAddr,
    path: String,
    config: Arc<rustls::ClientConfig>,
}

impl Target {
    fn of(namespace: &str) -> Self {
        let name = format!("windlass-{namespace}-hooks");
        let live = object(control_plane(), "default", "validatingwebhookconfiguration", &name).unwrap();
        let client = &live["webhooks"][0]["clientConfig"];
        let url = client["url"].as_str().unwrap().strip_prefix("https://").unwrap().to_owned();
        let (address, path) = url.split_once('/').unwrap();
        let pem = STANDARD.decode(client["caBundle"].as_str().unwrap()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address: address.parse().unwrap(), path: format!("/{path}"), config: Arc::new(config) }
    }

    /// Connects from an attacker's address.
    async fn tcp(&self, attacker: u8) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 1, 0, attacker)), 0))?;
        socket.connect(self.address).await
    }

    async fn tls(&self, attacker: u8) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = self.tcp(attacker).await?;
        let name = ServerName::IpAddress(self.address.ip().into());
        tokio_rustls::TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await
    }
}

/// Writes a byte each second until the other side closes; gives how long that took.
async fn trickle(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    byte: u8,
) -> Duration {
    let started = Instant::now();
    let mut every = tokio::time::interval(Duration::from_secs(1));
    let mut buffer = [0; 64];
    loop {
        tokio::select! {
            _ = every.tick() => {
                if stream.write_all(&[byte]).await.is_err() || stream.flush().await.is_err() {
                    return started.elapsed();
                }
            }
            read = stream.read(&mut buffer) => {
                if !read.is_ok_and(|n| n > 0) {
                    return started.elapsed();
                }
            }
        }
    }
}

/// Sends a body that is larger than any admission, in chunks; gives the status, if there is one.
async fn oversized(target: &Target, attacker: u8) -> std::io::Result<String> {
    let mut stream = target.tls(attacker).await?;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        target.path
    );
    stream.write_all(head.as_bytes()).await?;
    let chunk = format!("{:x}\r\n{}\r\n", 256 << 10, " ".repeat(256 << 10));
    let (mut reader, mut writer) = tokio::io::split(stream);
    let answer = tokio::spawn(async move {
        let mut buffer = vec![0; 256];
        let read = reader.read(&mut buffer).await.unwrap_or_default();
        String::from_utf8_lossy(&buffer[..read]).lines().next().unwrap_or_default().to_owned()
    });
    for _ in 0..36 {
        if writer.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    Ok(answer.await.unwrap_or_default())
}

/// Asks for paths that there are not, many on one connection; gives how many were answered.
async fn random_paths(target: &Target, attacker: u8, count: usize) -> usize {
    let mut stream = target.tls(attacker).await.unwrap();
    let (mut answered, mut rest) = (0, Vec::new());
    let mut buffer = vec![0; 64 << 10];
    for batch in 0..count / 100 {
        let one = |i: usize| {
            let id = format!("{attacker}-{batch}-{i}.x{}.test", i * 7919 % 1000);
            let path = ["/hooks/", "/mutating/", "/", "/"][i % 4];
            format!(
                "POST {path}{id} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"
            )
        };
        let requests: String = (0..100).map(one).collect();
        stream.write_all(requests.as_bytes()).await.unwrap();
        let wanted = answered + 100;
        while answered < wanted {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the connection was closed after {answered} answers");
            rest.extend_from_slice(&buffer[..read]);
            let ends = rest.windows(END.len()).filter(|w| *w == END).count();
            answered += ends;
            if ends > 0 {
                // The beginning of the next answer stays.
                let last = rest.windows(END.len()).rposition(|w| w == END).unwrap();
                rest.drain(..last + END.len());
            }
        }
    }
    answered
}

/// Makes the API server call the webhook until `stop` is set; returns how often it did, and the longest time.
async fn admissions(namespace: String, stop: Arc<AtomicBool>) -> (usize, Duration) {
    let kubeconfig = Some(control_plane().kubeconfig().to_owned());
    let cluster =
        Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    let config_map = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(&namespace), "asked");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "asked", "namespace": namespace, "labels": {"asks": "it"}}});
    let options = ApplyOptions {
        manager: "test",
        force: true,
        validation: Validation::Strict,
        dry_run: true,
        whole: false,
    };
    cluster.apply(&config_map, &body, options).await.unwrap();
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        cluster.apply(&config_map, &body, options).await.unwrap();
        longest = longest.max(started.elapsed());
        count += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (count, longest)
}

/// Memory has never been above what the chart grants.
fn within_limit(operator: &Operator) {
    let peak = operator.peak_memory_kib();
    println!("peak memory: {} MiB", peak >> 10);
    assert!(peak < MEMORY_LIMIT, "{peak} KiB");
}

/// Runs an attack while the API server asks.
async fn under<T>(namespace: &str, what: &str, attack: impl Future<Output = T>) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn(admissions(namespace.to_owned(), Arc::clone(&stop)));
    let done = attack.await;
    stop.store(true, Ordering::Relaxed);
    let (count, longest) = asking.await.unwrap();
    println!("{what}: {count} admissions, the longest took {} ms", longest.as_millis());
    assert!(longest < Duration::from_secs(1), "{what}: {longest:?}");
    assert!(count > 3, "{what}: {count}");
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_is_answered_whatever_other_addresses_do() {
    let cp = control_plane();
    let ns = cp.namespace("limits").unwrap();
    let ns = ns.name();
    let modules = Modules::new();
    let config = format!(
        "configVersion: v1\nkubernetesValidating: [{{name: a.hooks.test, labelSelector: {{matchLabels: {{asks: it}}}}, namespace: \
         {{labelSelector: {{matchLabels: {{kubernetes.io/metadata.name: {ns}}}}}}}, rules: [{{apiGroups: [''], apiVersions: [v1], \
         operations: [CREATE, UPDATE], resources: [configmaps]}}]}}]"
    );
    modules
        .hook("010-web/hooks/a", &config, "echo '{\"allowed\":true}' > \"$ADMISSION_RESPONSE_PATH\"")
        .enable(&["web"]);
    let operator = Operator::start_with(cp, ns, modules.path(), &ON_LOOPBACK);
    operator.wait_converged();
    let target = Target::of(ns);
    within_limit(&operator);
    let series = |text: &str| text.lines().filter(|l| l.starts_with("windlass_webhook_calls_total")).count();

    let longest = under(ns, "1,000 trickling connections", async {
        let mut all = JoinSet::new();
        for i in 0..1000_usize {
            let target = target.clone();
            all.spawn(async move {
                let attacker = u8::try_from(i % 20).unwrap() + 1;
                // Half of them never finish a handshake. One that is turned away has lost already.
                match i % 2 {
                    0 => match target.tcp(attacker).await {
                        Ok(stream) => trickle(stream, 22).await,
                        Err(_) => Duration::ZERO,
                    },
                    _ => match target.tls(attacker).await {
                        Ok(stream) => trickle(stream, b'G').await,
                        Err(_) => Duration::ZERO,
                    },
                }
            });
        }
        all.join_all().await.into_iter().max().unwrap()
    })
    .await;
    println!("the most patient of them was cut off after {longest:?}");
    assert!(longest > Duration::from_secs(2) && longest < CUT_OFF, "{longest:?}");
    within_limit(&operator);

    let refused = Arc::new(AtomicUsize::new(0));
    under(ns, "64 oversized bodies", async {
        let mut all = JoinSet::new();
        for i in 0..64_u8 {
            let (target, refused) = (target.clone(), Arc::clone(&refused));
            all.spawn(async move {
                let started = Instant::now();
                while started.elapsed() < Duration::from_secs(4) {
                    let line = oversized(&target, 100 + i % 8).await.unwrap_or_default();
                    // Refused, or closed: never answered.
                    let refusal = line.is_empty() || line.contains(" 413 ") || line.contains(" 503 ");
                    assert!(refusal, "{line}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        all.join_all().await;
    })
    .await;
    let refused = refused.load(Ordering::Relaxed);
    println!("{refused} bodies of 9 MiB were refused");
    assert!(refused >= 64, "{refused}");
    within_limit(&operator);

    let before = operator.get("/metrics").unwrap().1;
    let answered = under(ns, "100,000 paths", async {
        let mut all = JoinSet::new();
        for attacker in 0..4 {
            let target = target.clone();
            all.spawn(async move { random_paths(&target, 200 + attacker, 25_000).await });
        }
        all.join_all().await.into_iter().sum::<usize>()
    })
    .await;
    assert_eq!(answered, 100_000);
    let after = operator.get("/metrics").unwrap().1;
    assert_eq!(series(&after), series(&before), "paths make no series");
    assert!(!after.contains(".test\",result=\"failed\""), "{after}");

    within_limit(&operator);
    operator.stop();
    cp.kubectl(["delete", "validatingwebhookconfiguration", &format!("windlass-{ns}-hooks")]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_review_is_refused_unread() {
    let cp = control_plane();
    let ns = cp.namespace("refusals").unwrap();
    let ns = ns.name();
    let modules = Modules::new();
    let config = format!(
        "configVersion: v1\nkubernetesValidating: [{{name: a.hooks.test, namespace: {{labelSelector: {{matchLabels: \
         {{kubernetes.io/metadata.name: {ns}}}}}}}, rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: \
         [services]}}]}}]"
    );
    modules
        .hook("010-web/hooks/a", &config, "echo '{\"allowed\":true}' > \"$ADMISSION_RESPONSE_PATH\"")
        .enable(&["web"]);
    let operator = Operator::start_with(cp, ns, modules.path(), &ON_LOOPBACK);
    operator.wait_converged();
    let target = Target::of(ns);
    // None of these sends a body: who waited for it would not answer.
    let table = [
        ("/hooks/nobody.test", "application/json", "10", " 404 "),
        ("/nobody.example.com", "application/json", "10", " 404 "),
        (target.path.as_str(), "text/plain", "10", " 415 "),
        (target.path.as_str(), "application/json", "8388609", " 413 "),
    ];
    for (path, content_type, length, expected) in table {
        let mut stream = target.tls(9).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut buffer = vec![0; 512];
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut buffer));
        let read = read.await.unwrap_or_else(|_| panic!("{path} {content_type} waits for a body")).unwrap();
        let line = String::from_utf8_lossy(&buffer[..read]).lines().next().unwrap_or_default().to_owned();
        assert!(line.contains(expected), "{path} {content_type}: {line}");
    }
    // The plain listener has its limits, too: a head that never ends.
    let address = operator.address();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    let long = format!("X: {}\r\n", "x".repeat(1000));
    for _ in 0..64 {
        // It may be closed by then.
        drop(stream.write_all(long.as_bytes()).await);
    }
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer).await);
    assert!(answer.contains(" 431 ") || answer.is_empty(), "{answer}");
    let slow = trickle(TcpStream::connect(&address).await.unwrap(), b'G').await;
    assert!(slow < CUT_OFF, "{slow:?}");
    operator.stop();
    cp.kubectl(["delete", "validatingwebhookconfiguration", &format!("windlass-{ns}-hooks")]).unwrap();
}
