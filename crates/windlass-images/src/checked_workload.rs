//! A workload in a check: what it asks for, what it inherits of the object that its release is of, and its patch.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_cluster::{Cluster, ClusterError, ObjectMeta, ObjectRef};
use windlass_controller::ReleaseSettings;
use windlass_engine::{REQUESTED_IMAGES, ReleaseKey};

use super::flux_policy;
use super::image_annotations::{ImageRequest, ReleaseAnnotations};
use super::image_check::CheckContext;
use super::image_decision::later;
use super::image_workload::{FollowedContainer, release_of, template_path};
use super::rollout_record::{ContainerRecord, IMAGE_RECORD, RolloutRecord, read_image_record};

/// How long a rollout waits for the object of its release to be known, whose settings it was begun with.
pub(super) const UNKNOWN_LIMIT: Duration = Duration::from_secs(600);

/// What a workload has of the object that its release is of.
#[derive(Clone, Default)]
pub(super) struct Inherited {
    /// The object's settings; `None`: it has none, or is not known.
    pub(super) settings: Option<ReleaseAnnotations>,
    /// Whether it is known which object the release is of.
    pub(super) is_known: bool,
    /// Writes what follows from its settings, with no more rights than the object's release is applied with.
    pub(super) writer: Option<Cluster>,
    /// The namespace of the object.
    pub(super) namespace: Option<String>,
    /// It names a release that has settings, and is not known as one of its objects: an upgrade that runs may make it one.
    pub(super) may_join: bool,
}

impl CheckContext {
    /// What a workload has of the object that its release is of: nothing if it only has the marks of that release.
    ///
    /// # Errors
    /// The client of the object's ServiceAccount cannot be built.
    async fn inherited(
        &self,
        reference: &ObjectRef,
        workload: ObjectMeta<'_>,
    ) -> Result<Inherited, ClusterError> {
        let all = release_of(workload).map(|release| self.settings.of(&release)).unwrap_or_default();
        let mut nobodys = Inherited::default();
        for known in all {
            // What goes into the values of the release reaches its workloads as well.
            let says_nothing = known.annotations.is_empty() || known.follows_values();
            // Whoever writes to a namespace may write marks of any release, and whoever has a release may call it as another one.
            match self.is_object_of(&known.release, reference).await {
                Some(true) if says_nothing => {
                    return Ok(Inherited { is_known: true, ..Inherited::default() });
                }
                Some(true) => return self.inherited_of(known),
                found => {
                    // One that is called so is no reason not to wait for the one whose object it is.
                    nobodys.is_known |= known.release.is_at_home() && found.is_some();
                    nobodys.may_join |= !says_nothing;
                }
            }
        }
        Ok(nobodys)
    }

    /// What a workload has of the object of its release, with the rights of that.
    fn inherited_of(&self, known: ReleaseSettings) -> Result<Inherited, ClusterError> {
        let writer = Some(known.client(&self.runner)?);
        let name = match &known.object.namespace {
            Some(namespace) => format!("{namespace}/{}", known.object.name),
            None => known.object.name.clone(),
        };
        let object = format!("{} {name}", known.object.gvk.kind);
        let settings = Some(ReleaseAnnotations { object, annotations: known.annotations });
        let namespace = known.object.namespace;
        Ok(Inherited { settings, is_known: true, writer, namespace, may_join: false })
    }

    /// Whether a workload is an object of a release; `None`: that is not known now.
    async fn is_object_of(&self, release: &ReleaseKey, workload: &ObjectRef) -> Option<bool> {
        let runner = self.runner.clone().with_storage_namespace(&release.storage, false);
        let found = runner.engine().records().has_object(&release.id, workload).await;
        found.unwrap_or_else(|error| {
            tracing::warn!(object = %workload, %release, "whether it is an object of the release is not known: {error}");
            None
        })
    }

    /// A workload as it is now.
    ///
    /// # Errors
    /// As [`Self::inherited`]; or an ImagePolicy cannot be read.
    pub(super) async fn checked(
        &self,
        reference: &ObjectRef,
        object: Value,
    ) -> Result<Checked, ClusterError> {
        let inherited = self.inherited(reference, ObjectMeta::of(&object)).await?;
        let mut checked = Checked::of(reference, object, inherited);
        let Ok(Some(request)) = &checked.request else { return Ok(checked) };
        // In the namespace of whoever names it, and with the rights of that.
        let is_own = request.release_policy.is_empty();
        let Inherited { writer, namespace, .. } = &checked.inherited;
        let reader = writer.as_ref().filter(|_| !is_own).unwrap_or(&self.client).clone();
        let own = reference.namespace.as_ref().filter(|_| is_own);
        let namespace = own.or(namespace.as_ref()).cloned().unwrap_or_default();
        checked.has_flux_policy = flux_policy::resolve(&mut checked.request, &reader, &namespace).await?;
        Ok(checked)
    }
}

/// A workload in a check.
pub(super) struct Checked {
    pub(super) reference: ObjectRef,
    pub(super) object: Value,
    pub(super) request: Result<Option<ImageRequest>, String>,
    pub(super) record: RolloutRecord,
    pub(super) inherited: Inherited,
    /// Its policy is that of an ImagePolicy, whose changes do not wake its check.
    pub(super) has_flux_policy: bool,
}

impl Checked {
    pub(super) fn of(reference: &ObjectRef, object: Value, inherited: Inherited) -> Self {
        let meta = ObjectMeta::of(&object);
        let (request, record) =
            (ImageRequest::of(meta, inherited.settings.as_ref()), read_image_record(meta));
        Self { reference: reference.clone(), request, record, object, inherited, has_flux_policy: false }
    }

    /// Whether its rollout was begun with settings of an object that is not known yet, as after a restart.
    pub(super) fn awaits_object(&self, now: Timestamp) -> bool {
        let waits = |of: &ContainerRecord| {
            let rollout = of.rollout.as_ref().filter(|_| !of.release_policy.is_empty());
            rollout.is_some_and(|rollout| later(rollout.since, UNKNOWN_LIMIT) > now)
        };
        matches!(self.request, Ok(None)) && !self.inherited.is_known && self.record.values().any(waits)
    }

    pub(super) fn uid(&self) -> &str {
        ObjectMeta::of(&self.object).uid()
    }

    pub(super) fn kind(&self) -> &str {
        &self.reference.gvk.kind
    }

    pub(super) fn runs_rollout(&self) -> bool {
        self.record.values().any(|of| of.rollout.is_some())
    }

    /// The patch of the record, and of the images of some containers.
    pub(super) fn patch(&self, record: &RolloutRecord, images: &[(FollowedContainer, String)]) -> Value {
        let asked = record.iter().filter(|(_, of)| of.image != of.requested);
        let asked: BTreeMap<&str, &str> =
            asked.map(|(name, of)| (name.as_str(), of.requested.as_str())).collect();
        let text =
            |is_empty: bool, value: Value| if is_empty { Value::Null } else { value.to_string().into() };
        let meta = ObjectMeta::of(&self.object);
        let mut patch = json!({"metadata": {
            "uid": meta.uid(), "resourceVersion": meta.resource_version(),
            "annotations": {
                IMAGE_RECORD: text(record.is_empty(), json!(record)),
                REQUESTED_IMAGES: text(asked.is_empty(), json!(asked)),
            },
        }});
        for (container, image) in images {
            let mut pod = template_path(self.kind()).iter().fold(&mut patch, |node, key| &mut node[*key]);
            let field = if container.is_init { "initContainers" } else { "containers" };
            pod = &mut pod[field];
            if !pod.is_array() {
                *pod = json!([]);
            }
            if let Some(list) = pod.as_array_mut() {
                list.push(json!({"name": container.name, "image": image}));
            }
        }
        patch
    }
}
