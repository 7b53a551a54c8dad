//! The fields of helmfile's structures, in helmfile's order.
//!
//! Owns names, types and whether `build` leaves an empty field out (`omitempty`). The order is that of `build`.

use super::schema::{Struct, Type, always, field};

/// All structures.
pub const ALL: [&Struct; 13] = [
    &STATE,
    &HELM_DEFAULTS,
    &REPOSITORY,
    &RELEASE,
    &SET_VALUE,
    &INHERIT,
    &DEPENDENCY,
    &TRACK_RESOURCE,
    &ENVIRONMENT,
    &MISSING_FILE_HANDLER_CONFIG,
    &HOOK,
    &LLM,
    &SUB_HELMFILE,
];

/// `state.ReleaseSetSpec`
pub static STATE: Struct = Struct {
    go: "state.ReleaseSetSpec",
    fields: &[
        field("helmBinary", Type::Text),
        field("kustomizeBinary", Type::Text),
        field("values", Type::List(&Type::Any)),
        field("environments", Type::Map(&Type::Struct(&ENVIRONMENT))),
        field("bases", Type::List(&Type::Text)),
        field("helmDefaults", Type::Struct(&HELM_DEFAULTS)),
        field("helmfiles", Type::List(&Type::SubHelmfile)),
        field("kubeContext", Type::Text),
        field("namespace", Type::Text),
        field("chart", Type::Text),
        field("repositories", Type::List(&Type::Struct(&REPOSITORY))),
        field("commonLabels", Type::Map(&Type::Text)),
        field("releases", Type::List(&Type::Struct(&RELEASE))),
        field("llm", Type::Struct(&LLM)),
        field("apiVersions", Type::List(&Type::Text)),
        field("kubeVersion", Type::Text),
        field("hooks", Type::List(&Type::Struct(&HOOK))),
        always("templates", Type::Map(&Type::Struct(&RELEASE))),
        field("defaultInherit", Type::DefaultInherits),
        field("missingFileHandler", Type::Pointer(&Type::Text)),
        field("missingFileHandlerConfig", Type::Pointer(&Type::Struct(&MISSING_FILE_HANDLER_CONFIG))),
        field("lockFilePath", Type::Text),
    ],
};

/// `state.HelmSpec`
pub static HELM_DEFAULTS: Struct = Struct {
    go: "state.HelmSpec",
    fields: &[
        field("kubeContext", Type::Text),
        field("args", Type::List(&Type::Text)),
        field("diffArgs", Type::List(&Type::Text)),
        field("syncArgs", Type::List(&Type::Text)),
        field("templateArgs", Type::List(&Type::Text)),
        always("verify", Type::Bool),
        field("keyring", Type::Text),
        always("enableDNS", Type::Bool),
        field("skipSchemaValidation", Type::Pointer(&Type::Bool)),
        always("devel", Type::Bool),
        always("wait", Type::Bool),
        always("waitRetries", Type::Int),
        always("waitForJobs", Type::Bool),
        always("timeout", Type::Int),
        always("recreatePods", Type::Bool),
        always("force", Type::Bool),
        always("atomic", Type::Bool),
        always("rollbackOnFailure", Type::Bool),
        field("cleanupOnFail", Type::Bool),
        always("forceConflicts", Type::Bool),
        field("historyMax", Type::Pointer(&Type::Int)),
        field("createNamespace", Type::Pointer(&Type::Bool)),
        field("skipCRDs", Type::Bool),
        always("skipDeps", Type::Bool),
        always("skipRefresh", Type::Bool),
        field("resolveOCIVersions", Type::Pointer(&Type::Bool)),
        always("reuseValues", Type::Bool),
        field("postRenderer", Type::Pointer(&Type::Text)),
        field("postRendererArgs", Type::List(&Type::Text)),
        field("cascade", Type::Pointer(&Type::Text)),
        field("suppressOutputLineRegex", Type::List(&Type::Text)),
        field("disableAutoDetectedKubeVersionForDiff", Type::Pointer(&Type::Bool)),
        field("disableValidation", Type::Pointer(&Type::Bool)),
        field("disableOpenAPIValidation", Type::Pointer(&Type::Bool)),
        field("insecureSkipTLSVerify", Type::Bool),
        field("plainHttp", Type::Bool),
        field("deleteWait", Type::Bool),
        field("deleteTimeout", Type::Int),
        field("syncReleaseLabels", Type::Pointer(&Type::Bool)),
        field("takeOwnership", Type::Pointer(&Type::Bool)),
        field("serverSide", Type::Pointer(&Type::Text)),
        field("trackMode", Type::Text),
        field("helmStuckGrace", Type::Int),
    ],
};

/// `state.RepositorySpec`
pub static REPOSITORY: Struct = Struct {
    go: "state.RepositorySpec",
    fields: &[
        field("name", Type::Text),
        field("url", Type::Text),
        field("caFile", Type::Text),
        field("certFile", Type::Text),
        field("keyFile", Type::Text),
        field("username", Type::Text),
        field("password", Type::Text),
        field("registryConfig", Type::Text),
        field("managed", Type::Text),
        field("oci", Type::Bool),
        field("verify", Type::Bool),
        field("keyring", Type::Text),
        field("passCredentials", Type::Bool),
        field("skipTLSVerify", Type::Bool),
        field("plainHttp", Type::Bool),
    ],
};

/// `state.ReleaseSpec`
pub static RELEASE: Struct = Struct {
    go: "state.ReleaseSpec",
    fields: &[
        field("chart", Type::Text),
        field("chartPath", Type::Text),
        field("directory", Type::Text),
        field("version", Type::Text),
        field("verify", Type::Pointer(&Type::Bool)),
        field("keyring", Type::Text),
        field("enableDNS", Type::Pointer(&Type::Bool)),
        field("devel", Type::Pointer(&Type::Bool)),
        field("wait", Type::Pointer(&Type::Bool)),
        field("waitRetries", Type::Pointer(&Type::Int)),
        field("waitForJobs", Type::Pointer(&Type::Bool)),
        field("timeout", Type::Pointer(&Type::Int)),
        field("recreatePods", Type::Pointer(&Type::Bool)),
        field("force", Type::Pointer(&Type::Bool)),
        field("installed", Type::Pointer(&Type::Bool)),
        field("updateStrategy", Type::Text),
        field("atomic", Type::Pointer(&Type::Bool)),
        field("rollbackOnFailure", Type::Pointer(&Type::Bool)),
        field("cleanupOnFail", Type::Pointer(&Type::Bool)),
        field("forceConflicts", Type::Pointer(&Type::Bool)),
        field("historyMax", Type::Pointer(&Type::Int)),
        field("condition", Type::Text),
        field("createNamespace", Type::Pointer(&Type::Bool)),
        field("reuseValues", Type::Pointer(&Type::Bool)),
        field("disableOpenAPIValidation", Type::Pointer(&Type::Bool)),
        field("disableValidation", Type::Pointer(&Type::Bool)),
        field("disableValidationOnInstall", Type::Pointer(&Type::Bool)),
        field("missingFileHandler", Type::Pointer(&Type::Text)),
        field("missingFileHandlerConfig", Type::Pointer(&Type::Struct(&MISSING_FILE_HANDLER_CONFIG))),
        field("needs", Type::List(&Type::Text)),
        field("hooks", Type::List(&Type::Struct(&HOOK))),
        field("unitTests", Type::List(&Type::Text)),
        field("name", Type::Text),
        field("description", Type::Text),
        field("namespace", Type::Text),
        field("labels", Type::Map(&Type::Text)),
        field("values", Type::List(&Type::Any)),
        field("secrets", Type::List(&Type::Any)),
        field("set", Type::List(&Type::Struct(&SET_VALUE))),
        field("setString", Type::List(&Type::Struct(&SET_VALUE))),
        field("valuesTemplate", Type::List(&Type::Any)),
        field("setTemplate", Type::List(&Type::Struct(&SET_VALUE))),
        field("apiVersions", Type::List(&Type::Text)),
        field("kubeVersion", Type::Text),
        field("env", Type::List(&Type::Struct(&SET_VALUE))),
        field("valuesPathPrefix", Type::Text),
        field("kubeContext", Type::Text),
        field("insecureSkipTLSVerify", Type::Bool),
        field("plainHttp", Type::Bool),
        field("verifyTemplate", Type::Pointer(&Type::Text)),
        field("waitTemplate", Type::Pointer(&Type::Text)),
        field("installedTemplate", Type::Pointer(&Type::Text)),
        field("conditionTemplate", Type::Pointer(&Type::Text)),
        field("dependencies", Type::List(&Type::Struct(&DEPENDENCY))),
        field("jsonPatches", Type::List(&Type::Any)),
        field("strategicMergePatches", Type::List(&Type::Any)),
        field("transformers", Type::List(&Type::Any)),
        field("adopt", Type::List(&Type::Text)),
        field("forceGoGetter", Type::Bool),
        field("forceNamespace", Type::Text),
        field("skipDeps", Type::Pointer(&Type::Bool)),
        field("skipRefresh", Type::Pointer(&Type::Bool)),
        field("resolveOCIVersions", Type::Pointer(&Type::Bool)),
        field("postRenderer", Type::Pointer(&Type::Text)),
        field("skipSchemaValidation", Type::Pointer(&Type::Bool)),
        field("postRendererArgs", Type::List(&Type::Text)),
        field("cascade", Type::Pointer(&Type::Text)),
        field("suppressOutputLineRegex", Type::List(&Type::Text)),
        field("disableAutoDetectedKubeVersionForDiff", Type::Pointer(&Type::Bool)),
        field("inherit", Type::Inherits),
        field("suppressDiff", Type::Pointer(&Type::Bool)),
        field("deleteWait", Type::Pointer(&Type::Bool)),
        field("deleteTimeout", Type::Pointer(&Type::Int)),
        field("syncReleaseLabels", Type::Pointer(&Type::Bool)),
        field("takeOwnership", Type::Pointer(&Type::Bool)),
        field("serverSide", Type::Pointer(&Type::Text)),
        field("trackMode", Type::Text),
        field("trackTimeout", Type::Pointer(&Type::Int)),
        field("trackLogs", Type::Pointer(&Type::Bool)),
        field("trackFailedLogs", Type::Pointer(&Type::Bool)),
        field("helmStuckGrace", Type::Pointer(&Type::Int)),
        field("trackKinds", Type::List(&Type::Text)),
        field("skipKinds", Type::List(&Type::Text)),
        field("trackResources", Type::List(&Type::Struct(&TRACK_RESOURCE))),
        field("kubedogQPS", Type::Pointer(&Type::Float)),
        field("kubedogBurst", Type::Pointer(&Type::Int)),
        field("trackFailOnError", Type::Pointer(&Type::Bool)),
    ],
};

/// `state.SetValue`
pub static SET_VALUE: Struct = Struct {
    go: "state.SetValue",
    fields: &[
        field("name", Type::Text),
        field("value", Type::Text),
        field("file", Type::Text),
        field("values", Type::List(&Type::Any)),
    ],
};

/// `state.Inherit`
pub static INHERIT: Struct = Struct {
    go: "state.Inherit",
    fields: &[field("template", Type::Text), field("except", Type::List(&Type::Text))],
};

/// `state.Dependency`
pub static DEPENDENCY: Struct = Struct {
    go: "state.Dependency",
    fields: &[always("chart", Type::Text), always("version", Type::Text), always("alias", Type::Text)],
};

/// `state.TrackResourceSpec`
pub static TRACK_RESOURCE: Struct = Struct {
    go: "state.TrackResourceSpec",
    fields: &[field("kind", Type::Text), field("name", Type::Text), field("namespace", Type::Text)],
};

/// `state.EnvironmentSpec`
pub static ENVIRONMENT: Struct = Struct {
    go: "state.EnvironmentSpec",
    fields: &[
        field("values", Type::List(&Type::Any)),
        field("secrets", Type::List(&Type::Text)),
        field("kubeContext", Type::Text),
        field("missingFileHandler", Type::Pointer(&Type::Text)),
        field("missingFileHandlerConfig", Type::Pointer(&Type::Struct(&MISSING_FILE_HANDLER_CONFIG))),
        field("mergeStrategy", Type::Text),
    ],
};

/// `state.MissingFileHandlerConfig`
pub static MISSING_FILE_HANDLER_CONFIG: Struct =
    Struct { go: "state.MissingFileHandlerConfig", fields: &[field("ignoreMissingGitBranch", Type::Bool)] };

/// `event.Hook`
pub static HOOK: Struct = Struct {
    go: "event.Hook",
    fields: &[
        always("name", Type::Text),
        always("events", Type::List(&Type::Text)),
        always("command", Type::Text),
        field("kubectlApply", Type::Map(&Type::Text)),
        always("args", Type::List(&Type::Text)),
        always("showlogs", Type::Bool),
    ],
};

/// `llm.Config`
pub static LLM: Struct = Struct {
    go: "llm.Config",
    fields: &[
        field("baseURL", Type::Text),
        field("apiKey", Type::Text),
        field("model", Type::Text),
        field("timeout", Type::Duration),
        field("maxTokens", Type::Int),
        field("temperature", Type::Float),
    ],
};

/// An entry of `helmfiles`, in the order in which helmfile writes it.
pub static SUB_HELMFILE: Struct = Struct {
    go: "state.SubHelmfileSpec",
    fields: &[
        field("path", Type::Text),
        field("selectors", Type::List(&Type::Text)),
        field("selectorsInherited", Type::Bool),
        field("inherits", Type::List(&Type::Text)),
        field("values", Type::List(&Type::Any)),
    ],
};
