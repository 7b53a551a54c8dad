//! Requests that are kept between passes, so that drift is corrected without a render.
//!
//! Owns how much memory they take, over all front ends of the process: a small object can render much. What is not kept is rendered again
//! when it is needed. Knows nothing of who keeps which.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use windlass_base::bounded_json;
use windlass_base::machine::input_limit;
use windlass_base::namespace_places::{NamespacePlaces, TakenPlaces};
use windlass_engine::ReleaseRequest;

/// The bytes of one place.
const PLACE: u64 = 1 << 10;

/// The room of this process.
static ROOM: LazyLock<Room> = LazyLock::new(|| Room::new(input_limit()));

/// The memory for requests; one namespace has half of it.
struct Room {
    places: NamespacePlaces,
    limit: u64,
}

/// A request that is kept; its room is free again when it is dropped.
pub(crate) struct KeptRequest {
    pub(crate) request: Arc<ReleaseRequest>,
    _room: TakenPlaces,
}

impl KeptRequest {
    /// Keeps the request of an object of a namespace; `None` if all requests would take more than an eighth of the process's memory, or
    /// those of the namespace more than half of that.
    pub(crate) fn new(request: Arc<ReleaseRequest>, namespace: &str) -> Option<Self> {
        Self::within(&ROOM, request, namespace)
    }

    fn within(room: &Room, request: Arc<ReleaseRequest>, namespace: &str) -> Option<Self> {
        if request.rendered.manifest_text.len() as u64 > room.limit / 2 {
            // Its values need not be counted.
            return None;
        }
        let places = u32::try_from(size_of(&request).div_ceil(PLACE)).ok()?;
        let taken = room.places.try_take(namespace, places).ok()?;
        Some(Self { request, _room: taken })
    }
}

impl Room {
    fn new(limit: u64) -> Self {
        let places = |bytes: u64| usize::try_from(bytes / PLACE).unwrap_or(usize::MAX);
        Self { places: NamespacePlaces::new(places(limit), places(limit / 2)), limit }
    }
}

/// The most bytes of memory that a request takes.
fn size_of(request: &ReleaseRequest) -> u64 {
    let value = |value: &Value| bounded_json::size(value).parsed;
    let rendered = &request.rendered;
    let manifests = rendered.manifests.iter().map(|m| m.text.len() as u64 + value(&m.object));
    let hooks = rendered.hooks.iter().map(|hook| hook.text.len() as u64 + value(&hook.object));
    let crds =
        rendered.crds.iter().map(|crd| crd.text.len() as u64 + crd.objects.iter().map(value).sum::<u64>());
    let texts = (rendered.manifest_text.len() + rendered.notes.len()) as u64;
    let values = value(&request.config) + value(&request.chart.0);
    manifests.chain(hooks).chain(crds).sum::<u64>() + texts + values
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::{ChartRecord, RenderedRelease};

    #[test]
    fn requests_of_one_namespace_take_half_of_the_room() {
        let room = Room::new(100 << 10);
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
        assert!(keep("loud").is_some(), "their room is free again");
    }
}
