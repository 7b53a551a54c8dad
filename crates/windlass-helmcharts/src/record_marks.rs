//! Whose a record is, by its labels. Pure.
//!
//! Owns the mark of the records of HelmCharts. It is the labels' business: a record that cannot be decoded has them, too.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::managed_chart::ManagedChart;
use windlass_engine::record::{OWNER_LABEL, ReleaseStatus};

/// Label of records: digest of namespace and name of the HelmChart.
pub(crate) const OWNER_DIGEST: &str = "windlass.dev/owner-digest";

/// What the records of a HelmChart are marked with.
pub(crate) struct RecordMark {
    front_end: String,
    pub(crate) digest: String,
}

impl RecordMark {
    /// The mark of a HelmChart. `front_end`: the owner of its release. Labels are too short for its namespace and name.
    pub(crate) fn of(front_end: &str, chart: &ManagedChart) -> Self {
        let digest = Sha256::digest(chart.key());
        let digest = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { front_end: front_end.to_owned(), digest }
    }

    /// Whether a record has this mark.
    pub(crate) fn is_on(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(OWNER_LABEL) == Some(&self.front_end) && labels.get(OWNER_DIGEST) == Some(&self.digest)
    }

    /// Who else owns the release of a newest record: another front end, or another HelmChart. A record without a mark, such as one that
    /// k3s made, is taken over.
    pub(crate) fn other_owner(
        &self,
        labels: &BTreeMap<String, String>,
        status: ReleaseStatus,
    ) -> Option<String> {
        if status == ReleaseStatus::Uninstalled {
            return None;
        }
        if let Some(owner) = labels.get(OWNER_LABEL).filter(|owner| **owner != self.front_end) {
            return Some(format!("the operator's {owner}"));
        }
        let marked = labels.get(OWNER_DIGEST).is_some_and(|mark| *mark != self.digest);
        marked.then(|| "another HelmChart".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_its_owner() {
        let mark = RecordMark { front_end: "helmcharts".to_owned(), digest: "d1".to_owned() };
        let labels = |labels: &[(&str, &str)]| -> BTreeMap<String, String> {
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let (front_end, own) = ((OWNER_LABEL, "helmcharts"), (OWNER_DIGEST, "d1"));
        for (found, marked) in
            [(&[][..], false), (&[front_end], false), (&[front_end, own], true), (&[own], false)]
        {
            let found = labels(found);
            assert_eq!(mark.other_owner(&found, ReleaseStatus::Deployed), None, "{found:?}");
            assert_eq!(mark.is_on(&found), marked, "{found:?}");
        }
        for (found, expected) in [
            (&[(OWNER_LABEL, "helmreleases")][..], "the operator's helmreleases"),
            (&[(OWNER_LABEL, "helmreleases"), own], "the operator's helmreleases"),
            (&[front_end, (OWNER_DIGEST, "d2")], "another HelmChart"),
        ] {
            let found = labels(found);
            assert_eq!(mark.other_owner(&found, ReleaseStatus::Deployed).as_deref(), Some(expected));
            assert_eq!(mark.other_owner(&found, ReleaseStatus::Uninstalled), None);
            assert!(!mark.is_on(&found), "{found:?}");
        }
    }
}
