//! A way to the API server on which things go wrong, as a script says: on loopback, in plain text, for one command at a
//! time.

use axum::{body::Body, extract::Request, response::Response};
use futures::stream;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Runtime, sync::watch};

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Whoever asks is killed, before or after the server carried the request out.
    Kill { after: bool },
    /// The server answers with a failure of this status, and when to ask again.
    Answer(u16, Option<u32>),
    /// The connection breaks before the answer, before or after the request was carried out.
    Cut { after: bool },
    /// The request is carried out, and the connection breaks in the midst of the answer.
    Half,
    /// No answer ever comes, whether the request was carried out or not.
    Hang { after: bool },
    /// It goes on as soon as so many are under way, or when nobody else has come for a moment: what a client sends side by
    /// side is side by side here, too.
    Gather(usize),
}

/// What goes wrong with the request of a number (from 0), a method and a path.
type Script = Arc<dyn Fn(usize, &str, &str) -> Option<Fault> + Send + Sync>;

struct Shared {
    upstream: kube::Client,
    script: Mutex<Script>,
    asked: Mutex<Vec<String>>,
    faults: AtomicUsize,
    /// Requests that are not answered yet, and how many there were at most.
    underway: watch::Sender<usize>,
    most: AtomicUsize,
    victim: watch::Sender<Option<u32>>,
}

pub(crate) struct Proxy {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    _runtime: Runtime,
}

/// How a command came to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    /// `METHOD path` of each request, in order.
    pub(crate) asked: Vec<String>,
    /// Requests that were under way at the same time, at most.
    pub(crate) most: usize,
    pub(crate) faults: usize,
}

impl Proxy {
    /// A proxy before the cluster of a kubeconfig; its own kubeconfig is written into a directory.
    pub(crate) fn start(upstream: &Path, directory: &Path) -> Self {
        let runtime = Runtime::new().unwrap();
        let (shared, port) = runtime.block_on(async {
            let kubeconfig = kube::config::Kubeconfig::read_from(upstream).unwrap();
            let mut config =
                kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
            config.default_retry = false;
            let shared = Arc::new(Shared {
                upstream: kube::Client::try_from(config).unwrap(),
                script: Mutex::new(Arc::new(|_, _, _| None)),
                asked: Mutex::default(),
                underway: watch::Sender::new(0),
                most: AtomicUsize::new(0),
                faults: AtomicUsize::new(0),
                victim: watch::Sender::new(None),
            });
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let state = Arc::clone(&shared);
            let app = axum::Router::new().fallback(move |request| pass(Arc::clone(&state), request));
            tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
            (shared, port)
        });
        let kubeconfig = directory.join(format!("proxy-{port}.kubeconfig"));
        let text = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        Self { shared, kubeconfig, _runtime: runtime }
    }

    /// Runs windlass through this proxy while things go wrong as the script says.
    pub(crate) fn run(
        &self,
        args: &[&str],
        script: impl Fn(usize, &str, &str) -> Option<Fault> + Send + Sync + 'static,
    ) -> Ended {
        self.run_patient(args, None, script)
    }

    /// The same with a bound of single requests of its own, in seconds.
    pub(crate) fn run_patient(
        &self,
        args: &[&str],
        seconds: Option<u32>,
        script: impl Fn(usize, &str, &str) -> Option<Fault> + Send + Sync + 'static,
    ) -> Ended {
        *self.shared.script.lock().unwrap() = Arc::new(script);
        self.shared.asked.lock().unwrap().clear();
        self.shared.most.store(0, Ordering::SeqCst);
        self.shared.faults.store(0, Ordering::SeqCst);
        self.shared.victim.send_replace(None);
        let child: Child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(seconds.map(|seconds| ("WINDLASS_REQUEST_TIMEOUT", format!("{seconds}s"))))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.shared.victim.send_replace(Some(child.id()));
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        Ended {
            code: output.status.code(),
            text: String::from_utf8_lossy(&text).into_owned(),
            asked: self.shared.asked.lock().unwrap().clone(),
            most: self.shared.most.load(Ordering::SeqCst),
            faults: self.shared.faults.load(Ordering::SeqCst),
        }
    }
}

/// An operator that runs until it is killed or stopped.
pub(crate) struct Operator<'p> {
    child: Child,
    shared: &'p Shared,
    stderr: PathBuf,
}

impl Proxy {
    /// Starts an operator through this proxy while things go wrong as the script says; its log goes to a file beside the kubeconfig.
    pub(crate) fn start_operator(
        &self,
        args: &[&str],
        envs: &[(&str, &str)],
        script: impl Fn(usize, &str, &str) -> Option<Fault> + Send + Sync + 'static,
    ) -> Operator<'_> {
        *self.shared.script.lock().unwrap() = Arc::new(script);
        self.shared.asked.lock().unwrap().clear();
        self.shared.victim.send_replace(None);
        let stderr = self.kubeconfig.with_extension("log");
        let child: Child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(envs.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        self.shared.victim.send_replace(Some(child.id()));
        Operator { child, shared: &self.shared, stderr }
    }
}

impl Operator<'_> {
    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// `METHOD path` of each request so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(30).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Operator<'_> {
    fn drop(&mut self) {
        // The script may have been faster.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn pass(shared: Arc<Shared>, request: Request) -> Response {
    let script = Arc::clone(&shared.script.lock().unwrap());
    let path = request.uri().path_and_query().map_or("/", |p| p.as_str()).to_owned();
    let number = {
        let mut asked = shared.asked.lock().unwrap();
        asked.push(format!("{} {path}", request.method()));
        asked.len() - 1
    };
    let fault = script(number, request.method().as_str(), &path);
    shared.faults.fetch_add(usize::from(fault.is_some()), Ordering::SeqCst);
    match fault {
        None => forward(&shared, request).await,
        Some(Fault::Answer(status, after)) => answer(status, after),
        Some(Fault::Hang { after }) => {
            if after {
                forward(&shared, request).await;
            }
            std::future::pending().await
        }
        Some(Fault::Half) => half(forward(&shared, request).await).await,
        Some(Fault::Gather(many)) => {
            gather(&shared, many).await;
            let answer = forward(&shared, request).await;
            shared.underway.send_modify(|now| *now -= 1);
            answer
        }
        Some(Fault::Cut { after }) => {
            if after {
                forward(&shared, request).await;
            }
            cut()
        }
        Some(Fault::Kill { after }) => {
            if after {
                forward(&shared, request).await;
            }
            let mut victim = shared.victim.subscribe();
            let pid = victim.wait_for(Option::is_some).await.unwrap().unwrap();
            // The test reaps it only after this.
            kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
            cut()
        }
    }
}

/// Waits for others to come; an answer is under way from here on.
async fn gather(shared: &Shared, many: usize) {
    let mut underway = shared.underway.subscribe();
    let now = {
        let mut now = 0;
        shared.underway.send_modify(|count| {
            *count += 1;
            now = *count;
        });
        now
    };
    shared.most.fetch_max(now, Ordering::SeqCst);
    // That nobody comes shows in nothing but time.
    drop(tokio::time::timeout(Duration::from_millis(300), underway.wait_for(|now| *now >= many)).await);
}

async fn forward(shared: &Shared, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 << 20).await.unwrap_or_default();
    parts.headers.remove(http::header::HOST);
    let uri = parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    parts.uri = uri.parse().unwrap();
    match shared
        .upstream
        .send(http::Request::from_parts(parts, kube::client::Body::from(body.to_vec())))
        .await
    {
        Ok(response) => response.map(Body::new),
        // The server is not there.
        Err(_) => cut(),
    }
}

/// An answer without its second half.
async fn half(answer: Response) -> Response {
    let (parts, body) = answer.into_parts();
    let whole = axum::body::to_bytes(body, 64 << 20).await.unwrap_or_default();
    let first = Ok(whole.slice(..whole.len() / 2));
    let broken = stream::iter([first, Err(std::io::Error::other("cut"))]);
    Response::from_parts(parts, Body::from_stream(broken))
}

/// An answer that breaks off before it begins.
fn cut() -> Response {
    let broken = stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("cut")) });
    Response::builder().header("content-length", "100").body(Body::from_stream(broken)).unwrap()
}

fn answer(status: u16, after: Option<u32>) -> Response {
    let reason = match status {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let text = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason,
        "message": format!("a fault of status {status}")});
    let mut builder = Response::builder().status(status).header("content-type", "application/json");
    if let Some(after) = after {
        builder = builder.header("retry-after", after.to_string());
    }
    builder.body(Body::from(text.to_string())).unwrap()
}
