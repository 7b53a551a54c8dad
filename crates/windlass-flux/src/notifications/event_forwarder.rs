//! Sends events to a notification-controller, in their order.

use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderName};
use http::{Method, StatusCode};
use tokio::sync::mpsc::Receiver;

use super::super::error::FluxError;
use super::event_queue::QueuedEvent;
use windlass_base::backoff;
use windlass_fetch::http::{Http, Request, Tls};
use windlass_fetch::location::Location;

/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most requests for an event.
const MAX_TRIES: u32 = 5;
/// Most bytes of an answer, which nobody reads.
const MAX_ANSWER: u64 = 64 << 10;

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    /// It may be taken later.
    TryAgain,
    Refused,
}

impl Answer {
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            // 429: the controller had the same event already.
            200..=299 | 429 => Self::Taken,
            501 => Self::Refused,
            500..=599 => Self::TryAgain,
            _ => Self::Refused,
        }
    }
}

/// Sends events to an address until `stop` resolves, and then those that wait.
pub async fn forward(
    address: Location,
    mut events: Receiver<Arc<QueuedEvent>>,
    stop: impl Future<Output = ()>,
) {
    let http = Http::new(TIMEOUT, false);
    let mut stop = std::pin::pin!(stop);
    let mut closed = false;
    loop {
        let next = tokio::select! {
            next = events.recv() => next,
            () = &mut stop, if !closed => {
                events.close();
                closed = true;
                continue;
            }
        };
        let Some(queued) = next else { return };
        if let Err(error) = send(&http, &address, &queued.event.json()).await {
            let object = queued.event.involved_object.to_string();
            tracing::warn!(object, reason = queued.event.reason, "an event is not sent: {error}");
        }
    }
}

async fn send(http: &Http, address: &Location, body: &str) -> Result<(), FluxError> {
    let mut tries = 1;
    loop {
        let error = match post(http, address, body).await {
            Ok(status) => match Answer::of(status) {
                Answer::Taken => return Ok(()),
                Answer::Refused => return Err(format!("{address} answered {status}").into()),
                Answer::TryAgain => format!("{address} answered {status}").into(),
            },
            Err(error) => error,
        };
        if tries == MAX_TRIES {
            return Err(format!("{error}, after {MAX_TRIES} tries").into());
        }
        tokio::time::sleep(backoff::delay(tries)).await;
        tries += 1;
    }
}

async fn post(http: &Http, address: &Location, body: &str) -> Result<StatusCode, FluxError> {
    let tls = Tls::default();
    let content: (HeaderName, String) = (header::CONTENT_TYPE, "application/json".to_owned());
    let request = Request {
        method: Method::POST,
        headers: vec![content],
        body: body.to_owned().into(),
        confined: true,
        ..Request::get(address.clone(), &tls, MAX_ANSWER)
    };
    Ok(http.send(request).await.map_err(|e| e.to_string())?.status)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::Router;
    use axum::extract::State;

    use super::super::flux_event::FluxEvent;
    use super::super::recorded;
    use super::*;

    /// Bodies that came, and the statuses that are still to be answered, the last one first.
    type Server = Arc<(Mutex<Vec<String>>, Mutex<Vec<u16>>)>;

    async fn answer(State(server): State<Server>, body: String) -> StatusCode {
        server.0.lock().unwrap().push(body);
        let status = server.1.lock().unwrap().pop().unwrap_or(202);
        StatusCode::from_u16(status).unwrap()
    }

    #[tokio::test]
    async fn events_arrive_in_their_order_and_after_a_stop() {
        // The first one is repeated once, the second one is refused, the third one was known.
        let server: Server = Arc::new((Mutex::default(), Mutex::new(vec![429, 400, 503])));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let (sender, receiver) = tokio::sync::mpsc::channel(8);
        let events: Vec<FluxEvent> = recorded::rows().into_iter().map(|row| row.event).take(4).collect();
        for event in &events {
            let queued = QueuedEvent {
                event: Arc::new(event.clone()),
                labels: std::collections::BTreeMap::new(),
                _place: None,
            };
            sender.try_send(Arc::new(queued)).unwrap();
        }
        forward(Location::parse(&format!("http://{address}/")).unwrap(), receiver, async {}).await;
        let bodies = [0, 0, 1, 2, 3].map(|at: usize| events[at].json());
        assert_eq!(*server.0.lock().unwrap(), bodies);
        assert!(sender.is_closed());
    }

    #[test]
    fn a_duplicate_is_as_good_as_taken() {
        for (status, answer) in [
            (200, Answer::Taken),
            (202, Answer::Taken),
            (429, Answer::Taken),
            (400, Answer::Refused),
            (404, Answer::Refused),
            (501, Answer::Refused),
            (500, Answer::TryAgain),
            (503, Answer::TryAgain),
        ] {
            assert_eq!(Answer::of(StatusCode::from_u16(status).unwrap()), answer, "{status}");
        }
    }
}
