//! Windlass renders and applies Helm charts without Helm.
