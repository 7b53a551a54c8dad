//! Objects of Kubernetes as documents: their identity, owner, order and differences. Pure.
//!
//! Owns what follows from an object alone, or from two states of it. Reads no cluster and no clock, and knows nothing of records and
//! steps.

pub(crate) mod config_references;
pub(crate) mod crd_files;
mod crd_schema;
pub(crate) mod data_loss;
pub(crate) mod desired_objects;
pub(crate) mod field_conflicts;
pub(crate) mod field_diff;
pub(crate) mod followed_images;
pub(crate) mod kind_sorter;
pub(crate) mod ownership;
pub(crate) mod served_kinds;

use std::collections::BTreeMap;
use windlass_cluster::{ObjectKey, ObservedMeta};

/// The observed state of the cluster; `None`: the object does not exist.
pub(crate) type ObservedObjects = BTreeMap<ObjectKey, Option<ObservedMeta>>;
