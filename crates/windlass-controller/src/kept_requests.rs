//! Requests that are kept between passes, so that drift is corrected without a render.
//!
//! Owns how much memory they take, over all front ends of the process: a small object can render much. What is not kept is rendered again
//! when it is needed. Knows nothing of who keeps which.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::Value;
use windlass_base::machine::input_limit;
use windlass_engine::ReleaseRequest;

/// What a value takes beside its texts, in bytes; an entry of a map has its key and the map's own besides.
const NODE_BYTES: usize = 40;
const ENTRY_BYTES: usize = 40;

/// Those of this process.
static KEPT: LazyLock<Arc<Room>> = LazyLock::new(|| Arc::new(Room::new(input_limit())));

/// The memory for requests: all, and what each namespace has of it.
struct Room {
    limit: u64,
    taken: Mutex<BTreeMap<String, u64>>,
}

/// A request that is kept; its memory is free again when it is dropped.
pub(crate) struct KeptRequest {
    pub(crate) request: Arc<ReleaseRequest>,
    room: Arc<Room>,
    namespace: String,
    bytes: u64,
}

impl KeptRequest {
    /// Keeps the request of an object of a namespace; `None` if all requests would take more than an eighth of the process's memory, or
    /// those of the namespace more than half of that.
    pub(crate) fn new(request: Arc<ReleaseRequest>, namespace: &str) -> Option<Self> {
        Self::within(&KEPT, request, namespace)
    }

    fn within(room: &Arc<Room>, request: Arc<ReleaseRequest>, namespace: &str) -> Option<Self> {
        let bytes = size_of_request(&request);
        let namespace = namespace.to_owned();
        room.take(&namespace, bytes).then(|| Self { request, room: Arc::clone(room), namespace, bytes })
    }
}

impl Drop for KeptRequest {
    fn drop(&mut self) {
        self.room.free(&self.namespace, self.bytes);
    }
}

impl Room {
    fn new(limit: u64) -> Self {
        Self { limit, taken: Mutex::default() }
    }

    fn take(&self, namespace: &str, bytes: u64) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: u64 = taken.values().sum();
        let own = taken.get(namespace).copied().unwrap_or_default();
        let fits = all + bytes <= self.limit && own + bytes <= self.limit / 2;
        if fits {
            taken.insert(namespace.to_owned(), own + bytes);
        }
        fits
    }

    fn free(&self, namespace: &str, bytes: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(namespace) {
            *own -= bytes;
            if *own == 0 {
                taken.remove(namespace);
            }
        }
    }
}

/// About how many bytes of memory a request takes.
fn size_of_request(request: &ReleaseRequest) -> u64 {
    let rendered = &request.rendered;
    let manifests = rendered.manifests.iter().map(|m| m.text.len() + size_of_value(&m.object));
    let hooks = rendered.hooks.iter().map(|hook| hook.text.len() + size_of_value(&hook.object));
    let crds =
        rendered.crds.iter().map(|crd| crd.text.len() + crd.objects.iter().map(size_of_value).sum::<usize>());
    let below: usize = manifests.chain(hooks).chain(crds).sum();
    let texts = rendered.manifest_text.len() + rendered.notes.len();
    let values = size_of_value(&request.config) + size_of_value(&request.chart.0);
    (size_of::<ReleaseRequest>() + below + texts + values) as u64
}

/// Values come from texts whose depth has a bound.
fn size_of_value(value: &Value) -> usize {
    NODE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(list) => list.iter().map(size_of_value).sum(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| ENTRY_BYTES + key.len() + size_of_value(value)).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::{ChartRecord, RenderedRelease};

    #[test]
    fn requests_of_one_namespace_take_half_of_the_room() {
        let room = Arc::new(Room::new(100 << 10));
        let request = |bytes: usize| {
            let rendered = RenderedRelease { notes: "x".repeat(bytes), ..RenderedRelease::default() };
            Arc::new(ReleaseRequest {
                rendered: Arc::new(rendered),
                chart: Arc::new(ChartRecord::default()),
                ..ReleaseRequest::default()
            })
        };
        let keep = |namespace: &str| KeptRequest::within(&room, request(20 << 10), namespace);
        let kept = [keep("loud"), keep("loud"), keep("loud"), keep("quiet"), keep("third"), keep("fourth")];
        assert_eq!(kept.each_ref().map(Option::is_some), [true, true, false, true, true, false]);
        drop(kept);
        assert!(room.taken.lock().unwrap().is_empty());
        assert!(keep("loud").is_some());
    }
}
