//! Replay: equal inputs render to equal output.
//!
//! Charts that call `randAlphaNum`, `genCA`, `uuidv4` or `now` render differently each time, so that an operator that compares renders
//! would upgrade forever. A [`Replay`] is a world that returns its earlier values again. It owns the values that a release's renders
//! generated ([`GeneratedValues`]) and the objects that they looked up; `store` saves the former in a Secret.

mod generated_values;
pub mod store;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use windlass_base::hex::hex;

use chart_compat::Bytes;
use chart_compat::chart::{Chart, Warn};
use chart_compat::data::{Data, Map};
use chart_compat::render::{self, CompiledChart, Options, Rendered};
use chart_compat::world::{Call, KeyKind, Timestamp, World};
use sha2::{Digest as _, Sha256};

pub use generated_values::GeneratedValues;

use super::to_json;

/// The four arguments of a `lookup` call of a render.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LookupQuery {
    /// `apiVersion`
    pub api_version: String,
    /// `kind`
    pub kind: String,
    /// Empty for all namespaces or a kind without any.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
}

impl LookupQuery {
    /// The arguments in their order.
    #[must_use]
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [api_version, kind, namespace, name] = [api_version, kind, namespace, name].map(str::to_owned);
        Self { api_version, kind, namespace, name }
    }
}

/// The result of a replayed render.
pub struct Replayed {
    /// The output.
    pub rendered: Rendered,
    /// The values to store for the next render; `None` if nothing changed.
    pub memory: Option<GeneratedValues>,
    /// Certificates renewed after two thirds of their validity: function and template.
    pub renewed: Vec<String>,
    /// When the next certificate must be renewed, in seconds since 1970.
    pub renew_at: Option<i64>,
    /// The lookups, and a digest of each result.
    pub lookups: BTreeMap<LookupQuery, String>,
}

/// An error of a replayed render.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The render failed; `lookups` as in [`Replayed`], with an empty digest for one that had no answer: another answer may make it
    /// succeed.
    #[error("{error}")]
    Render { error: Box<render::Error>, lookups: BTreeMap<LookupQuery, String> },
    /// Stored values of earlier renders cannot be decoded: generating new ones would change passwords.
    #[error("values that earlier renders generated cannot be read: {0}")]
    GeneratedValues(String),
}

/// Renders with stored values: unchanged inputs give unchanged bytes. `load` is called at most once, and only if the chart
/// generates values.
///
/// # Errors
/// The render fails, or the stored values cannot be loaded.
pub fn render(
    chart: &CompiledChart,
    user: &Map,
    options: &Options,
    world: &dyn World,
    load: &(dyn Fn() -> Result<GeneratedValues, String> + Sync),
    warn: Warn<'_>,
) -> Result<Replayed, Error> {
    let inputs = inputs(chart.chart(), user, options);
    let memory = OnceLock::new();
    let mut time_moves = false;
    loop {
        let replay = Replay {
            world,
            inputs: &inputs,
            load,
            memory: &memory,
            time_moves,
            clock: world.now(),
            state: Mutex::default(),
        };
        let rendered = chart.render(user, options, &replay, warn);
        if let Some(Err(why)) = memory.get() {
            return Err(Error::GeneratedValues(why.clone()));
        }
        let state = replay.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rendered = match rendered {
            Ok(rendered) => rendered,
            Err(error) => return Err(Error::Render { error: Box::new(error), lookups: state.lookups }),
        };
        let known = memory.get().and_then(|m| m.as_ref().ok());
        // The lookups are known only now: a render with an old time but new results is repeated.
        if let Some(known) = known
            && state.asked_time
            && !time_moves
            && known.inputs == inputs
            && known.lookups != lookup_lines(&state.lookups)
        {
            time_moves = true;
            continue;
        }
        return Ok(state.finish(rendered, known, &inputs, replay.clock, time_moves));
    }
}

/// The description of a revision whose cause is a renewed certificate.
pub fn description(renewed: &[String]) -> Option<String> {
    let list = renewed.join(", ");
    (!list.is_empty()).then(|| format!("Certificates renewed at two thirds of their life: {list}"))
}

/// Encodes lookups for storage: one line each.
fn lookup_lines(lookups: &BTreeMap<LookupQuery, String>) -> BTreeMap<String, String> {
    let line = |q: &LookupQuery| format!("{} {} {} {}", q.api_version, q.kind, q.namespace, q.name);
    lookups.iter().map(|(q, digest)| (line(q), digest.clone())).collect()
}

/// A digest of all inputs of a render except its lookups.
fn inputs(chart: &Chart, user: &Map, options: &Options) -> String {
    fn add(hash: &mut Sha256, part: &[u8]) {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    fn files(hash: &mut Sha256, chart: &Chart) {
        let m = &chart.metadata;
        for text in [&m.name, &m.version, &m.app_version] {
            add(hash, text.as_bytes());
        }
        add(hash, to_json(&Data::Map((*chart.values).clone())).to_string().as_bytes());
        for file in chart.templates.iter().chain(&chart.files) {
            add(hash, file.name.as_bytes());
            add(hash, &file.data);
        }
        chart.dependencies.iter().for_each(|sub| files(hash, sub));
    }
    let mut hash = Sha256::new();
    files(&mut hash, chart);
    add(&mut hash, to_json(&Data::Map(user.clone())).to_string().as_bytes());
    let (release, capabilities) = (&options.release, &options.capabilities);
    for text in [&release.name, &release.namespace, &capabilities.kube_version.version] {
        add(&mut hash, text.as_bytes());
    }
    capabilities.api_versions.iter().for_each(|v| add(&mut hash, v.as_bytes()));
    hex(&hash.finalize())
}

/// A digest of a lookup's result, without managed fields, resource version and generation.
#[must_use]
pub fn answer_digest(answer: &Data) -> String {
    fn clean(value: &mut serde_json::Value) {
        if let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
            metadata.remove("generation");
        }
        value
            .get_mut("items")
            .and_then(serde_json::Value::as_array_mut)
            .into_iter()
            .flatten()
            .for_each(clean);
    }
    let mut value = to_json(answer);
    clean(&mut value);
    hex(&Sha256::digest(value.to_string().as_bytes()))
}

/// The state of a render.
#[derive(Default)]
struct State {
    /// Requested keys, with the generated values.
    used: BTreeMap<String, Option<generated_values::Kept>>,
    renewed: Vec<String>,
    lookups: BTreeMap<LookupQuery, String>,
    asked_time: bool,
    /// A value is being generated: the time is the real one.
    making: bool,
}

impl State {
    fn finish(
        self,
        rendered: Rendered,
        known: Option<&GeneratedValues>,
        inputs: &str,
        clock: Timestamp,
        time_moves: bool,
    ) -> Replayed {
        let mut memory = known.cloned().unwrap_or_default();
        let mut out =
            Replayed { rendered, memory: None, renewed: self.renewed, renew_at: None, lookups: self.lookups };
        // A chart that generates nothing has nothing to store.
        if self.used.is_empty() && !self.asked_time && memory.values.is_empty() {
            return out;
        }
        let moved = time_moves || memory.inputs != inputs;
        if moved {
            memory.turn(inputs, clock, &self.used);
        }
        memory.lookups = lookup_lines(&out.lookups);
        for (key, made) in self.used {
            if let Some(made) = made {
                memory.values.insert(key, made);
            }
        }
        out.renew_at =
            memory.values.values().filter(|v| v.idle == 0).filter_map(generated_values::Kept::due).min();
        out.memory = (known != Some(&memory)).then_some(memory);
        out
    }
}

/// The world of a replayed render.
struct Replay<'r> {
    world: &'r dyn World,
    inputs: &'r str,
    load: &'r (dyn Fn() -> Result<GeneratedValues, String> + Sync),
    memory: &'r OnceLock<Result<GeneratedValues, String>>,
    /// Whether changed inputs advance the time.
    time_moves: bool,
    clock: Timestamp,
    state: Mutex<State>,
}

impl Replay<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> Option<&GeneratedValues> {
        self.memory.get_or_init(|| (self.load)()).as_ref().ok()
    }
}

impl World for Replay<'_> {
    fn in_order(&self) -> bool {
        true
    }

    fn now(&self) -> Timestamp {
        if self.state().making {
            return self.world.now();
        }
        self.state().asked_time = true;
        match self.memory() {
            Some(memory) if memory.inputs == self.inputs && !self.time_moves => memory.now(),
            _ => self.clock,
        }
    }

    fn local_zone(&self) -> String {
        self.world.local_zone()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.world.random(bytes);
    }

    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        self.world.make_key(kind)
    }

    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        self.world.public_key(pkcs8)
    }

    fn sign(&self, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
        self.world.sign(pkcs8, message)
    }

    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String> {
        let answer = self.world.lookup(api_version, kind, namespace, name);
        let query = LookupQuery::new(api_version, kind, namespace, name);
        let digest = answer.as_ref().map(answer_digest).unwrap_or_default();
        self.state().lookups.insert(query, digest);
        answer
    }

    fn schema_document(&self, url: &str) -> Result<Bytes, String> {
        self.world.schema_document(url)
    }

    fn stopped(&self) -> Option<String> {
        self.world.stopped()
    }

    fn resolve(&self, host: &str) -> String {
        self.world.resolve(host)
    }

    fn remember(&self, call: &Call<'_>, make: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        if call.function == "now" {
            // The whole render has one time.
            return make();
        }
        let key = generated_values::key(call);
        // A file that another one includes prints the same values there.
        if let Some(Some(made)) = self.state().used.get(&key)
            && let Some(value) = made.value()
        {
            return value;
        }
        let kept = self.memory().and_then(|m| m.values.get(&key));
        if let Some(kept) = kept.filter(|k| k.due().is_none_or(|due| due > self.clock.seconds))
            && let Some(value) = kept.value()
        {
            self.state().used.insert(key, None);
            return value;
        }
        if kept.is_some() {
            self.state().renewed.push(format!("{} in {}", call.function, call.file));
        }
        self.state().making = true;
        let value = make();
        let mut state = self.state();
        state.making = false;
        state.used.insert(key, Some(generated_values::Kept::new(call, &value, self.clock)));
        value
    }
}

#[cfg(test)]
mod tests;
