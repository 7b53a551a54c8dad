//! Follows objects by name, for waits: by a watch, and where the rights do not allow one, by polling each of them.

use super::{
    api_client::Cluster,
    error::{ClusterError, Result},
    object_ref::{Gvk, ObjectRef},
    object_stream::{ObjectEvent, REFUSAL_GRACE},
};
use futures::{Stream, StreamExt as _, stream};
use serde_json::Value;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Poll interval of objects that cannot be watched.
pub const POLL: Duration = Duration::from_secs(2);
/// Objects that are polled at a time.
const AT_ONCE: usize = 8;

/// An event for those who follow objects.
#[derive(Debug)]
pub enum Followed {
    Event(ObjectEvent),
    /// The server refuses to list or watch them, with this text: they are polled from here on.
    Refused(String),
}

/// Objects of a kind in a namespace.
struct Following<W> {
    cluster: Cluster,
    objects: Vec<ObjectRef>,
    watch: Option<W>,
    poll: Poll,
}

/// Objects that are polled one by one.
#[derive(Default)]
struct Poll {
    /// The last state of each, in the order of the objects.
    last: Vec<Option<Value>>,
    events: VecDeque<ObjectEvent>,
    polled: Option<Instant>,
    /// A poll has succeeded.
    worked: bool,
    /// Since when polls are refused.
    refused: Option<Instant>,
}

impl Cluster {
    /// Follows objects of a kind in a namespace by their names. They are watched by their common labels, or by name
    /// if there is only one; events of others may be included.
    pub async fn follow_named(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        names: &[&str],
        labels: &str,
    ) -> Result<impl Stream<Item = Result<Followed>> + Unpin + use<>> {
        let fields = match names {
            [name] => format!("metadata.name={name}"),
            _ => String::new(),
        };
        let labels = if fields.is_empty() { labels } else { "" };
        let watch = self.follow_while_allowed(gvk, namespace, labels, &fields).await?;
        let objects = names.iter().map(|name| ObjectRef::new(gvk.clone(), namespace, name)).collect();
        let following =
            Following { cluster: self.clone(), objects, watch: Some(watch), poll: Poll::default() };
        let events = stream::unfold(following, |mut following| async move {
            let events = following.next().await?;
            Some((events, following))
        });
        Ok(events.boxed())
    }
}

impl<W: Stream<Item = Result<ObjectEvent>> + Unpin> Following<W> {
    async fn next(&mut self) -> Option<Result<Followed>> {
        if let Some(watch) = &mut self.watch {
            return match watch.next().await? {
                Err(ClusterError::Api(status)) if status.code == 403 => {
                    self.watch = None;
                    Some(Ok(Followed::Refused(status.message)))
                }
                events => {
                    self.poll.worked |= events.is_ok();
                    Some(events.map(Followed::Event))
                }
            };
        }
        loop {
            if let Some(event) = self.poll.events.pop_front() {
                return Some(Ok(Followed::Event(event)));
            }
            if let Some(polled) = self.poll.polled {
                tokio::time::sleep(POLL.saturating_sub(polled.elapsed())).await;
            }
            self.poll.polled = Some(Instant::now());
            let cluster = &self.cluster;
            let looks: Vec<_> = self.objects.iter().map(|object| cluster.get(object)).collect();
            let looked = stream::iter(looks).buffered(AT_ONCE).collect::<Vec<_>>().await;
            if let Err(error) = self.poll.take(looked, Instant::now()) {
                return Some(Err(error));
            }
        }
    }
}

impl Poll {
    /// Takes the answers of a round, one for each object. Transient errors are left out; an error is returned if it
    /// lasts: a server that has just started refuses requests for a while.
    fn take(&mut self, looked: Vec<Result<Option<Value>>>, now: Instant) -> Result<()> {
        self.last.resize(looked.len(), None);
        let mut whole = true;
        let mut refusal = None;
        self.events.push_back(ObjectEvent::Listing);
        for (last, found) in self.last.iter_mut().zip(looked) {
            match found {
                Ok(found) => {
                    self.worked = true;
                    let gone = if found.is_none() { last.take() } else { None };
                    self.events.extend(
                        found.iter().cloned().map(ObjectEvent::Present).chain(gone.map(ObjectEvent::Gone)),
                    );
                    *last = found;
                }
                Err(error) if error.is_transient() => whole = false,
                Err(error) => refusal = Some(error),
            }
        }
        let Some(refusal) = refusal else {
            self.refused = None;
            if whole {
                self.events.push_back(ObjectEvent::Listed);
            }
            return Ok(());
        };
        let since = *self.refused.get_or_insert(now);
        let passes = refusal.is_forbidden() && self.worked && now.duration_since(since) < REFUSAL_GRACE;
        if passes { Ok(()) } else { Err(refusal) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::ApiStatus;
    use super::*;
    use serde_json::json;

    fn events(poll: &mut Poll) -> Vec<String> {
        let name = |object: &Value| object["name"].as_str().unwrap_or_default().to_owned();
        let show = |event| match event {
            ObjectEvent::Present(object) => format!("+{}", name(&object)),
            ObjectEvent::Gone(object) => format!("-{}", name(&object)),
            ObjectEvent::Listing => "[".to_owned(),
            ObjectEvent::Listed => "]".to_owned(),
        };
        poll.events.drain(..).map(show).collect()
    }

    fn answer(code: u16) -> Result<Option<Value>> {
        match code {
            200 => Ok(Some(json!({"name": "a"}))),
            404 => Ok(None),
            code => Err(ClusterError::Api(Box::new(ApiStatus { code, ..ApiStatus::default() }))),
        }
    }

    #[test]
    fn rounds_tell_what_a_watch_would() {
        let now = Instant::now();
        let mut poll = Poll::default();
        for (answers, expected) in [
            (vec![answer(404), answer(404)], vec!["[", "]"]),
            (vec![answer(200), answer(404)], vec!["[", "+a", "]"]),
            (vec![answer(200), answer(503)], vec!["[", "+a"]),
            (vec![answer(404), answer(200)], vec!["[", "-a", "+a", "]"]),
        ] {
            poll.take(answers, now).unwrap();
            assert_eq!(events(&mut poll), expected);
        }
    }

    #[test]
    fn a_refusal_is_an_answer_unless_there_were_others_before() {
        let now = Instant::now();
        let late = now + REFUSAL_GRACE;
        assert!(Poll::default().take(vec![answer(403)], now).is_err(), "nothing ever worked");
        let mut poll = Poll { worked: true, ..Poll::default() };
        assert!(poll.take(vec![answer(403)], now).is_ok());
        assert!(poll.take(vec![answer(200)], late).is_ok());
        assert!(poll.take(vec![answer(403)], late).is_ok(), "a refusal of its own");
        assert!(poll.take(vec![answer(403)], late + REFUSAL_GRACE).is_err());
        assert!(poll.take(vec![answer(422)], now).is_err());
    }
}
