//! The release engine: brings a release in a cluster to what a request says, and remembers it as Helm does.
//!
//! observe → decide → plan → apply → record → watch; one file each. `decide`, `plan`, `order`, `graph`, `ownership`, `ready`,
//! `drift`, `lock`, `targets`, `conflicts`, `fields` and the record's encoding are pure. `preview` shows a plan before it is
//! carried out, `evidence` tells what drifted and by whom, `lease` keeps a release to one operation at a time, `why` tells what brought its revisions about. Knows
//! nothing of charts, values, templates, YAML or custom resources: a request carries rendered objects, an outcome says
//! what was done.

mod apply;
mod attention;
mod brought;
mod carry_out;
mod conflicts;
mod crd_safety;
mod crd_schema;
mod crds;
mod decide;
mod diagnose;
mod drift;
mod engine;
mod error;
mod evidence;
mod fields;
mod graph;
mod hooks;
mod keep;
mod lease;
mod lock;
mod mend;
mod observe;
mod operation;
mod order;
mod outcome;
mod ownership;
mod past;
mod past_kinds;
mod plan;
mod preview;
mod preview_ground;
mod process;
mod progress;
mod read;
mod ready;
mod ready_legacy;
mod ready_when;
mod reason;
pub mod record;
mod recreate;
mod request;
mod resources;
mod rollback;
mod show;
mod state;
mod targets;
mod test;
mod uninstall;
mod waiting;
mod why;

pub use attention::Attention;
pub use conflicts::Conflict;
pub use crds::require_crds;
pub use decide::Action;
pub use engine::{Engine, EngineOptions};
pub use error::{Disposition, EngineError, Result, Unready};
pub use evidence::{Drift, DriftedField};
pub use fields::FieldChange;
pub use observe::Past;
pub use outcome::{Outcome, Uninstalled};
pub use preview::{Change, PlannedHook, Preview, Verb};
pub use progress::{Progress, ProgressListener};
pub use reason::{Kept, Reason};
pub use request::*;
pub use resources::Resources;
pub use show::{field_line, look};
pub use test::{PodLog, TestRequest, Tested};
pub use why::{ObjectWhy, Why, value_changes};
