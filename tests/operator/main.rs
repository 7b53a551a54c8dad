//! The operator as its users run it: the real binary on a real control plane, judged with kubectl and real Helm.

mod bad_input;
mod charts;
mod crash;
mod modules;
mod support;
