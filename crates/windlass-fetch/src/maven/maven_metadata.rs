//! `maven-metadata.xml`: the versions of an artifact, and the files of a snapshot.

use crate::xml_elements::{self, Element, MalformedXml};

/// The most versions, or files of a snapshot, that are read.
const MAX_ENTRIES: usize = 50_000;

/// The deepest element; what is read is nested less deeply.
const MAX_DEPTH: usize = 8;

/// What a file of metadata says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MavenMetadata {
    /// All versions, snapshots included.
    pub(super) versions: Vec<String>,
    /// The files of a snapshot.
    pub(super) files: Vec<SnapshotFile>,
    /// `TIMESTAMP-BUILDNUMBER` of the newest build of a snapshot, where its files are not listed.
    pub(super) newest_build: Option<String>,
}

/// A file of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SnapshotFile {
    pub(super) classifier: String,
    pub(super) extension: String,
    /// The version in its name.
    pub(super) value: String,
}

/// Why metadata cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MetadataError {
    #[error("it is not XML: {0}")]
    Xml(#[from] MalformedXml),
    #[error("it has more than {MAX_ENTRIES} entries")]
    TooMany,
    #[error("its elements are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl MavenMetadata {
    /// Reads a file.
    pub(super) fn read(xml: &[u8]) -> Result<Self, MetadataError> {
        let mut out = Self::default();
        let mut path: Vec<String> = Vec::new();
        let mut file = SnapshotFile::default();
        let (mut timestamp, mut build) = (String::new(), String::new());
        xml_elements::read(xml, |element| {
            match element {
                Element::Start(name, _) if path.len() < MAX_DEPTH => path.push(name.to_owned()),
                Element::Start(..) => return Err(MetadataError::TooDeep),
                Element::End(_, text) => {
                    let place: Vec<&str> = path.iter().map(String::as_str).collect();
                    let text = text.trim();
                    match place.as_slice() {
                        ["metadata", "versioning", "versions", "version"] => {
                            out.versions.push(text.to_owned());
                        }
                        ["metadata", "versioning", "snapshot", "timestamp"] => {
                            text.clone_into(&mut timestamp);
                        }
                        ["metadata", "versioning", "snapshot", "buildNumber"] => text.clone_into(&mut build),
                        ["metadata", "versioning", "snapshotVersions", "snapshotVersion"] => {
                            out.files.push(std::mem::take(&mut file));
                        }
                        ["metadata", "versioning", "snapshotVersions", "snapshotVersion", field] => {
                            match *field {
                                "classifier" => text.clone_into(&mut file.classifier),
                                "extension" => text.clone_into(&mut file.extension),
                                "value" => text.clone_into(&mut file.value),
                                _ => {}
                            }
                        }
                        _ => {}
                    }
                    path.pop();
                }
            }
            if out.versions.len() + out.files.len() > MAX_ENTRIES {
                Err(MetadataError::TooMany)
            } else {
                Ok(())
            }
        })?;
        if !timestamp.is_empty() && !build.is_empty() {
            out.newest_build = Some(format!("{timestamp}-{build}"));
        }
        Ok(out)
    }

    /// The version in the name of a file of this snapshot; `None` where the server keeps one file of it, overwritten by each build.
    pub(super) fn file_version(&self, snapshot: &str, extension: &str, classifier: &str) -> Option<String> {
        let listed =
            self.files.iter().find(|file| file.extension == extension && file.classifier == classifier);
        let base = snapshot.strip_suffix("-SNAPSHOT").unwrap_or(snapshot);
        let built = self.newest_build.as_ref().map(|build| format!("{base}-{build}"));
        listed.map(|file| file.value.clone()).or(built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_files_of_snapshots_are_read() {
        let xml = "<?xml version=\"1.0\"?><metadata><groupId>g</groupId><versioning><latest>2</latest><versions>\
            <version>1.0</version><version> 2.0-SNAPSHOT </version></versions><lastUpdated>1</lastUpdated></versioning></metadata>";
        let read = MavenMetadata::read(xml.as_bytes()).unwrap();
        assert_eq!(read.versions, ["1.0", "2.0-SNAPSHOT"]);
        let xml = "<metadata><versioning><snapshot><timestamp>20260101.101112</timestamp><buildNumber>7</buildNumber></snapshot>\
            <snapshotVersions><snapshotVersion><extension>war</extension><value>2.0-20260101.101112-7</value></snapshotVersion>\
            <snapshotVersion><classifier>sources</classifier><extension>jar</extension><value>2.0-x</value></snapshotVersion>\
            </snapshotVersions></versioning></metadata>";
        let read = MavenMetadata::read(xml.as_bytes()).unwrap();
        let of = |extension, classifier| read.file_version("2.0-SNAPSHOT", extension, classifier);
        assert_eq!(of("war", "").as_deref(), Some("2.0-20260101.101112-7"));
        assert_eq!(of("jar", "sources").as_deref(), Some("2.0-x"));
        assert_eq!(of("ear", "").as_deref(), Some("2.0-20260101.101112-7"));
        assert_eq!(
            MavenMetadata::read(b"<metadata/>").unwrap().file_version("2.0-SNAPSHOT", "war", ""),
            None
        );
    }

    #[test]
    fn metadata_is_bounded() {
        let many = format!("<metadata><versioning><versions>{}", "<version>1</version>".repeat(50_001));
        let deep = "<a>".repeat(1_000_000);
        for (xml, part) in [
            (many.as_str(), "more than"),
            (&deep, "deeper"),
            ("<a></b>", "not XML"),
            ("<a>&x;</a>", "entity"),
        ] {
            let error = MavenMetadata::read(xml.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        // What ends early has what there was.
        assert_eq!(MavenMetadata::read(b"").unwrap(), MavenMetadata::default());
    }
}
