//! The fields of a kustomization file and their types.
//!
//! Owns the names; a field that is not here is refused.

use crate::decode::{Struct, Type};
use crate::fieldspec::FIELD_SPEC;

const TEXTS: Type = Type::List(&Type::Text);
const TEXT_MAP: Type = Type::Map(&Type::Text);

static OBJECT_META: Struct = Struct {
    go: "types.ObjectMeta",
    fields: &[
        ("name", Type::Text),
        ("namespace", Type::Text),
        ("labels", TEXT_MAP),
        ("annotations", TEXT_MAP),
    ],
};
static LABEL: Struct = Struct {
    go: "types.Label",
    fields: &[
        ("pairs", TEXT_MAP),
        ("includeSelectors", Type::Bool),
        ("includeTemplates", Type::Bool),
        ("fields", Type::List(&Type::Struct(&FIELD_SPEC))),
    ],
};
pub(crate) static SELECTOR: Struct = Struct {
    go: "types.Selector",
    fields: &[
        ("group", Type::Text),
        ("version", Type::Text),
        ("kind", Type::Text),
        ("name", Type::Text),
        ("namespace", Type::Text),
        ("annotationSelector", Type::Text),
        ("labelSelector", Type::Text),
    ],
};
static PATCH_ARGS: Struct = Struct {
    go: "types.PatchArgs",
    fields: &[("allowNameChange", Type::Bool), ("allowKindChange", Type::Bool)],
};
pub(crate) static PATCH: Struct = Struct {
    go: "types.Patch",
    fields: &[
        ("path", Type::Text),
        ("patch", Type::Text),
        ("target", Type::Pointer(&SELECTOR)),
        ("options", Type::Pointer(&PATCH_ARGS)),
    ],
};
pub(crate) static IMAGE: Struct = Struct {
    go: "types.Image",
    fields: &[
        ("name", Type::Text),
        ("newName", Type::Text),
        ("tagSuffix", Type::Text),
        ("newTag", Type::Text),
        ("digest", Type::Text),
    ],
};
static FIELD_OPTIONS: Struct = Struct {
    go: "types.FieldOptions",
    fields: &[
        ("delimiter", Type::Text),
        ("index", Type::Int("int")),
        ("encoding", Type::Text),
        ("create", Type::Bool),
    ],
};
static SOURCE_SELECTOR: Struct = Struct {
    go: "types.SourceSelector",
    fields: &[
        ("group", Type::Text),
        ("version", Type::Text),
        ("kind", Type::Text),
        ("name", Type::Text),
        ("namespace", Type::Text),
        ("fieldPath", Type::Text),
        ("options", Type::Pointer(&FIELD_OPTIONS)),
    ],
};
static TARGET_SELECTOR: Struct = Struct {
    go: "types.TargetSelector",
    fields: &[
        ("select", Type::Pointer(&SELECTOR)),
        ("reject", Type::List(&Type::Pointer(&SELECTOR))),
        ("fieldPaths", TEXTS),
        ("options", Type::Pointer(&FIELD_OPTIONS)),
    ],
};
pub(crate) static REPLACEMENT_FIELD: Struct = Struct {
    go: "types.ReplacementField",
    fields: &[
        ("source", Type::Pointer(&SOURCE_SELECTOR)),
        ("targets", Type::List(&Type::Pointer(&TARGET_SELECTOR))),
        ("sourceValue", Type::Text),
        ("path", Type::Text),
    ],
};
pub(crate) static REPLICA: Struct =
    Struct { go: "types.Replica", fields: &[("name", Type::Text), ("count", Type::Int("int64"))] };
static VAR_TARGET: Struct = Struct {
    go: "types.Target",
    fields: &[
        ("apiVersion", Type::Text),
        ("group", Type::Text),
        ("version", Type::Text),
        ("kind", Type::Text),
        ("name", Type::Text),
        ("namespace", Type::Text),
    ],
};
static FIELD_SELECTOR: Struct = Struct { go: "types.FieldSelector", fields: &[("fieldPath", Type::Text)] };
static VAR: Struct = Struct {
    go: "types.Var",
    fields: &[
        ("name", Type::Text),
        ("objref", Type::Struct(&VAR_TARGET)),
        ("fieldref", Type::Struct(&FIELD_SELECTOR)),
    ],
};
static LEGACY_SORT_OPTIONS: Struct =
    Struct { go: "types.LegacySortOptions", fields: &[("orderFirst", TEXTS), ("orderLast", TEXTS)] };
static SORT_OPTIONS: Struct = Struct {
    go: "types.SortOptions",
    fields: &[("order", Type::Text), ("legacySortOptions", Type::Pointer(&LEGACY_SORT_OPTIONS))],
};
pub(crate) static GENERATOR_OPTIONS: Struct = Struct {
    go: "types.GeneratorOptions",
    fields: &[
        ("labels", TEXT_MAP),
        ("annotations", TEXT_MAP),
        ("disableNameSuffixHash", Type::Bool),
        ("immutable", Type::Bool),
    ],
};
static CONFIG_MAP_ARGS: Struct = Struct {
    go: "types.ConfigMapArgs",
    fields: &[
        ("namespace", Type::Text),
        ("name", Type::Text),
        ("behavior", Type::Text),
        ("literals", TEXTS),
        ("files", TEXTS),
        ("envs", TEXTS),
        ("env", Type::Text),
        ("options", Type::Pointer(&GENERATOR_OPTIONS)),
    ],
};
static SECRET_ARGS: Struct = Struct {
    go: "types.SecretArgs",
    fields: &[
        ("namespace", Type::Text),
        ("name", Type::Text),
        ("behavior", Type::Text),
        ("literals", TEXTS),
        ("files", TEXTS),
        ("envs", TEXTS),
        ("env", Type::Text),
        ("options", Type::Pointer(&GENERATOR_OPTIONS)),
        ("type", Type::Text),
    ],
};
static HELM_GLOBALS: Struct =
    Struct { go: "types.HelmGlobals", fields: &[("chartHome", Type::Text), ("configHome", Type::Text)] };
pub(crate) static HELM_CHART: Struct = Struct {
    go: "types.HelmChart",
    fields: &[
        ("name", Type::Text),
        ("version", Type::Text),
        ("repo", Type::Text),
        ("releaseName", Type::Text),
        ("namespace", Type::Text),
        ("additionalValuesFiles", TEXTS),
        ("valuesFile", Type::Text),
        ("valuesInline", Type::Map(&Type::Any)),
        ("valuesMerge", Type::Text),
        ("includeCRDs", Type::Bool),
        ("skipHooks", Type::Bool),
        ("apiVersions", TEXTS),
        ("kubeVersion", Type::Text),
        ("nameTemplate", Type::Text),
        ("skipTests", Type::Bool),
        ("debug", Type::Bool),
        ("devel", Type::Bool),
    ],
};
static HELM_CHART_ARGS: Struct = Struct {
    go: "types.HelmChartArgs",
    fields: &[
        ("chartName", Type::Text),
        ("chartVersion", Type::Text),
        ("chartRepoUrl", Type::Text),
        ("chartHome", Type::Text),
        ("chartRepoName", Type::Text),
        ("helmBin", Type::Text),
        ("helmHome", Type::Text),
        ("values", Type::Text),
        ("valuesLocal", Type::Map(&Type::Any)),
        ("valuesMerge", Type::Text),
        ("releaseName", Type::Text),
        ("releaseNamespace", Type::Text),
        ("extraArgs", TEXTS),
    ],
};

pub(super) static KUSTOMIZATION: Struct = Struct {
    go: "types.Kustomization",
    fields: &[
        ("kind", Type::Text),
        ("apiVersion", Type::Text),
        ("metadata", Type::Pointer(&OBJECT_META)),
        ("openapi", TEXT_MAP),
        ("namePrefix", Type::Text),
        ("nameSuffix", Type::Text),
        ("namespace", Type::Text),
        ("commonLabels", TEXT_MAP),
        ("labels", Type::List(&Type::Struct(&LABEL))),
        ("commonAnnotations", TEXT_MAP),
        ("patchesStrategicMerge", TEXTS),
        ("patchesJson6902", Type::List(&Type::Struct(&PATCH))),
        ("patches", Type::List(&Type::Struct(&PATCH))),
        ("images", Type::List(&Type::Struct(&IMAGE))),
        ("imageTags", Type::List(&Type::Struct(&IMAGE))),
        ("replacements", Type::List(&Type::Struct(&REPLACEMENT_FIELD))),
        ("replicas", Type::List(&Type::Struct(&REPLICA))),
        ("vars", Type::List(&Type::Struct(&VAR))),
        ("sortOptions", Type::Pointer(&SORT_OPTIONS)),
        ("resources", TEXTS),
        ("components", TEXTS),
        ("crds", TEXTS),
        ("bases", TEXTS),
        ("configMapGenerator", Type::List(&Type::Struct(&CONFIG_MAP_ARGS))),
        ("secretGenerator", Type::List(&Type::Struct(&SECRET_ARGS))),
        ("helmGlobals", Type::Pointer(&HELM_GLOBALS)),
        ("helmCharts", Type::List(&Type::Struct(&HELM_CHART))),
        ("helmChartInflationGenerator", Type::List(&Type::Struct(&HELM_CHART_ARGS))),
        ("generatorOptions", Type::Pointer(&GENERATOR_OPTIONS)),
        ("configurations", TEXTS),
        ("generators", TEXTS),
        ("transformers", TEXTS),
        ("validators", TEXTS),
        ("buildMetadata", TEXTS),
    ],
};
