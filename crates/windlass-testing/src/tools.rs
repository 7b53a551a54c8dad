//! The pinned programs: which there are, how each is built and where it is.
//!
//! The versions live in the `go.mod` files of `tests/tools` alone. A change there, or of a recipe below, changes the
//! name of the group's cache directory, so that a stale binary cannot be found. To move to another version, change it
//! in `go.mod` and run `go mod tidy` there.

mod go;

use std::env;
use std::path::{Path, PathBuf};

use crate::Result;

/// A program of the control plane, or a reference to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubectl,
    Kwok,
    Helm4,
    Helm3,
    /// Our own program that answers with Helm's code; no part of a cluster.
    Answers,
    /// The same with the code of Helm 3, for whole charts.
    AnswersOfHelm3,
    /// A registry of OCI artifacts; no part of a cluster.
    Registry,
    /// Our own program that serves Git over SSH; no part of a cluster.
    Ssh,
    /// Flux's source-controller, for tests beside it that are asked for.
    SourceController,
    /// Flux's helm-controller, which records what HelmReleases end with.
    HelmController,
}

/// How a tool is built. `{version}`, `{major}` and `{minor}` in a stamp are those of the module that `go.mod` pins.
#[derive(Debug)]
struct Recipe {
    /// File name of the binary.
    name: &'static str,
    /// Folder of `tests/tools`: tools whose dependencies agree share one.
    group: &'static str,
    module: &'static str,
    package: &'static str,
    /// Variables that the linker sets, as release builds of the tool do: scripts and the API see them.
    stamps: &'static [&'static str],
    /// Files of the module that the tool is run with, copied beside the binary.
    files: &'static [&'static str],
    /// What a first build takes on two cores.
    build_time: &'static str,
}

const KUBE_APISERVER: Recipe = Recipe {
    name: "kube-apiserver",
    group: "kubernetes",
    module: "k8s.io/kubernetes",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    stamps: &[
        "k8s.io/component-base/version.gitVersion={version}",
        "k8s.io/component-base/version.gitMajor={major}",
        "k8s.io/component-base/version.gitMinor={minor}",
    ],
    files: &[],
    build_time: "4 minutes",
};

const HELM3: Recipe = Recipe {
    name: "helm",
    group: "helm3",
    module: "helm.sh/helm/v3",
    package: "helm.sh/helm/v3/cmd/helm",
    // Its releases are stamped with the Kubernetes that its client-go is of; without, templates and lint see 1.20.
    stamps: &[
        "helm.sh/helm/v3/internal/version.version={version}",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=37",
    ],
    files: &[],
    build_time: "a minute",
};

/// Nodes get Ready and keep their lease; Pods get Ready at once, those of Jobs complete, deleted ones go.
const KWOK_STAGES: &[&str] = &[
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
];

impl Tool {
    /// All tools, in an order in which a first build shows results early.
    pub const ALL: [Tool; 14] = [
        Tool::Etcd,
        Tool::KubeApiserver,
        Tool::KubeControllerManager,
        Tool::KubeScheduler,
        Tool::Kubectl,
        Tool::Kwok,
        Tool::Helm4,
        Tool::Helm3,
        Tool::Answers,
        Tool::AnswersOfHelm3,
        Tool::Registry,
        Tool::Ssh,
        Tool::SourceController,
        Tool::HelmController,
    ];

    /// Those that are built only if they are asked for by name: few tests use them, and a build takes long.
    pub const ON_REQUEST: [Tool; 2] = [Tool::SourceController, Tool::HelmController];

    /// The programs of a control plane, and kubectl.
    pub const OF_CLUSTER: [Tool; 6] = [
        Tool::Etcd,
        Tool::KubeApiserver,
        Tool::KubeControllerManager,
        Tool::KubeScheduler,
        Tool::Kubectl,
        Tool::Kwok,
    ];

    /// Where the binary is. Builds it first if no earlier run did; other processes wait for that build.
    ///
    /// `KUBEBUILDER_ASSETS` goes before the pinned build of what it holds of Kubernetes and etcd.
    pub fn path(self) -> Result<PathBuf> {
        match self.asset() {
            Some(path) => Ok(path),
            None => go::build_once(self.recipe()),
        }
    }

    /// The binary; `None` if it is not built yet.
    pub fn built(self) -> Result<Option<PathBuf>> {
        match self.asset() {
            Some(path) => Ok(Some(path)),
            None => Ok(Some(go::binary(self.recipe())?).filter(|path| path.is_file())),
        }
    }

    /// The name of the binary, as its users know it.
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    fn asset(self) -> Option<PathBuf> {
        let recipe = self.recipe();
        let directory = env::var_os("KUBEBUILDER_ASSETS")?;
        let path = Path::new(&directory).join(recipe.name);
        (matches!(recipe.group, "kubernetes" | "etcd") && path.is_file()).then_some(path)
    }

    fn recipe(self) -> &'static Recipe {
        match self {
            Tool::Etcd => &Recipe {
                name: "etcd",
                group: "etcd",
                module: "go.etcd.io/etcd/server/v3",
                package: "go.etcd.io/etcd/server/v3",
                stamps: &[],
                files: &[],
                build_time: "a minute",
            },
            Tool::KubeApiserver => &KUBE_APISERVER,
            Tool::KubeControllerManager => &Recipe {
                name: "kube-controller-manager",
                package: "k8s.io/kubernetes/cmd/kube-controller-manager",
                build_time: "a minute",
                ..KUBE_APISERVER
            },
            Tool::KubeScheduler => &Recipe {
                name: "kube-scheduler",
                package: "k8s.io/kubernetes/cmd/kube-scheduler",
                build_time: "half a minute",
                ..KUBE_APISERVER
            },
            Tool::Kubectl => &Recipe {
                name: "kubectl",
                package: "k8s.io/kubernetes/cmd/kubectl",
                build_time: "half a minute",
                ..KUBE_APISERVER
            },
            Tool::Kwok => &Recipe {
                name: "kwok",
                group: "kwok",
                module: "sigs.k8s.io/kwok",
                package: "sigs.k8s.io/kwok/cmd/kwok",
                stamps: &[],
                files: KWOK_STAGES,
                build_time: "a minute",
            },
            Tool::Helm4 => &Recipe {
                name: "helm",
                group: "helm4",
                module: "helm.sh/helm/v4",
                package: "helm.sh/helm/v4/cmd/helm",
                stamps: &["helm.sh/helm/v4/internal/version.version={version}"],
                files: &[],
                build_time: "2 minutes",
            },
            Tool::Helm3 => &HELM3,
            Tool::AnswersOfHelm3 => &Recipe { name: "answers", package: ".", ..HELM3 },
            Tool::Registry => &Recipe {
                name: "registry",
                group: "registry",
                module: "github.com/distribution/distribution/v3",
                package: "github.com/distribution/distribution/v3/cmd/registry",
                stamps: &[],
                files: &[],
                build_time: "2 minutes",
            },
            // Its version is that of the library in it.
            Tool::Ssh => &Recipe {
                name: "ssh-server",
                group: "ssh",
                module: "golang.org/x/crypto",
                package: ".",
                stamps: &[],
                files: &[],
                build_time: "a minute",
            },
            Tool::SourceController => &Recipe {
                name: "source-controller",
                group: "source-controller",
                module: "github.com/fluxcd/source-controller",
                package: "github.com/fluxcd/source-controller",
                stamps: &[],
                files: &[],
                build_time: "10 minutes",
            },
            Tool::HelmController => &Recipe {
                name: "helm-controller",
                group: "helm-controller",
                module: "github.com/fluxcd/helm-controller",
                package: "github.com/fluxcd/helm-controller",
                stamps: &[],
                files: &[],
                build_time: "10 minutes",
            },
            // Its version is that of the Helm in it.
            Tool::Answers => &Recipe {
                name: "answers",
                group: "go",
                module: "helm.sh/helm/v4",
                package: ".",
                stamps: &[],
                files: &[],
                build_time: "2 minutes",
            },
        }
    }
}

/// The stage files that make kwok play nodes and Pods.
pub(crate) fn kwok_stages() -> Result<Vec<PathBuf>> {
    let kwok = Tool::Kwok.path()?;
    Ok(KWOK_STAGES.iter().map(|file| kwok.with_file_name(go::file_name(file))).collect())
}
