//! The real control plane that tests, benches and the quick start run on.
