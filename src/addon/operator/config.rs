//! What the ConfigMap refers to, read and watched.

use std::collections::BTreeMap;

use chart_compat::data::Map;

use super::Operator;
use crate::addon::config::{Config, Problem};
use crate::addon::lookups::Watch;
use crate::addon::references::{self, SUFFIX};
use crate::addon::values::GLOBAL;

/// Stands for the ConfigMap where modules are named that something has changed for: no module is called so.
pub(super) const REFERENCES: &str = "";

impl Operator {
    /// Reads what sections refer to, and follows it from now on; what cannot be read is a problem of its key.
    pub(super) async fn follow_references(&mut self, config: &mut Config) -> BTreeMap<String, Map> {
        self.references = None;
        if config.references.is_empty() {
            return BTreeMap::new();
        }
        let cluster = self.shared.engine.keeper();
        let referred = references::read(cluster, &self.options.namespace, &config.references).await;
        self.references = Some(Watch::start(cluster, REFERENCES, referred.seen, &self.outdated_sender));
        let mut good = BTreeMap::new();
        for (section, values) in referred.sections {
            match values {
                Ok(values) => drop(good.insert(section, values)),
                Err(text) => {
                    let key = format!("{section}{SUFFIX}");
                    let text = format!("key {key}: {text}");
                    let module = Some(section).filter(|s| s != GLOBAL);
                    config.problems.push(Problem { key, module, text });
                }
            }
        }
        good
    }
}
