//! YAML as sigs.k8s.io/yaml (go-yaml v2, YAML 1.1) reads and writes it.
