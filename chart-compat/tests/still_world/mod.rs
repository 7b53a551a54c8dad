//! A world in which nothing is random and no time passes but that of a deadline.

use std::time::Instant;

use chart_compat::data::Data;
use chart_compat::world::{KeyKind, Timestamp, World};

/// Nothing random, and no cluster. A render has until then, if anything is said.
pub(crate) struct StillWorld(pub(crate) Option<Instant>);

impl World for StillWorld {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 0, nanos: 0 }
    }

    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> {
        Err("no keys".to_owned())
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("no keys".to_owned())
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Err("no cluster".to_owned())
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }

    fn stopped(&self) -> Option<String> {
        self.0.filter(|until| Instant::now() > *until).map(|_| "its time is over".to_owned())
    }
}
