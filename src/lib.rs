//! Windlass renders and applies Helm charts without Helm.
//!
//! The way of the data, a crate a step; each has a README that says what it owns and what it refuses to know:
//!
//! ```text
//! chart bytes → chart + values → rendered manifests → plan → apply → record → watch → …
//! windlass-fetch  chart-compat     windlass-render     windlass-engine (over windlass-cluster)
//! ```
//!
//! - `chart-compat`: charts, values and templates, as Helm renders them; pure
//! - `kustomize-compat`: kustomizations to manifests, as kustomize builds them; pure
//! - `helmfile-compat`: state files to releases, as helmfile evaluates them; pure
//! - `windlass-charts`: charts as custom resources: their CustomResourceDefinitions; pure
//! - `windlass-base`: secrets and their masks, bounded reads, child processes, CEL
//! - `windlass-fetch`: repositories, registries, Git, HTTP, buckets, signatures
//! - `windlass-cluster`: the Kubernetes client
//! - `windlass-engine`: the release engine: observe, decide, plan, execute, record, watch
//! - `windlass-render`: between the pure renderers and the engine
//! - `windlass-controller`: the operator runtime, and what it serves
//! - `api-types`, `flux-api`: types of custom resources
//! - `windlass-artifacts`: artifacts of Flux's sources, as those who use them get them
//! - `windlass-flux`: HelmReleases, sources, notifications
//! - `windlass-configmaps`: ConfigMaps that are made of the files of a source
//! - `windlass-helmcharts`: HelmCharts of k3s and RKE2
//! - `windlass-reload`: workloads that are rolled out when their configuration changes; `windlass-images`: when their images are newer
//! - `windlass-chartresource`: kinds whose objects are releases of a chart
//! - `windlass-helmfile`: helmfile's releases, and the Helmfile resource
//! - `windlass-modules`: addon-operator's modules with hooks
//!
//! This package has what is left:
//!
//! - [`cli`]: the command line
//! - [`runtime`]: which controllers run in a process, and whether it leads
//! - [`preflight`]: what an operator needs and would do, before it runs

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cli;
pub mod preflight;
pub mod runtime;
