//! Nothing in the index of a repository, in versions and coordinates of Maven makes a fetch panic, hang or eat the machine.

use std::fs;
use std::hint::black_box;

use windlass_differential::Family;
use windlass_fetch::index;
use windlass_fetch::maven::{MavenCoordinates, MavenVersion, VersionWish};

use super::fuzz;

#[test]
fn indexes_of_repositories() {
    let seeds = [
        "apiVersion: v1\nentries:\n  web:\n  - apiVersion: v2\n    name: web\n    version: 1.2.3\n    urls: [web-1.2.3.tgz]\n    digest: abc\n    created: \
         2026-01-02T03:04:05.6Z\n  - {name: web, version: 1.2.3-rc.1+b, urls: ['https://h/w.tgz'], deprecated: true}\n  db:\n    - name: db\n      version: \"2\"\n\
         generated: 2026-01-02T03:04:05Z\n",
        "{\"apiVersion\": \"v1\", \"entries\": {\"web\": [{\"name\": \"web\", \"version\": \"1.0.0\", \"urls\": [\"a\"], \"annotations\": {\"a\": \"b\"}}]}}",
        "entries: &e\n  a: [{name: a, version: 1.0.0}]\n  <<: {b: [{name: b, version: 0.1.0, dependencies: [{name: c}]}]}\n",
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    fuzz("repository index", &seeds, &[Family::Yaml], |text| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index.yaml");
        fs::write(&path, text).unwrap();
        let names = index::check(&path).unwrap_or_default();
        let found = index::find(&path, &["web", "db", "a", "b"], &mut |_| {}).unwrap_or_default();
        for versions in found.values() {
            for wish in ["", ">0", "1.x", "1.2.3-rc.1+b"] {
                drop(index::entry::choose(versions.iter().map(|v| v.metadata.version.as_str()), wish));
            }
        }
        let first = names.first().map(String::as_str).unwrap_or_default();
        drop(index::find(&path, &[first], &mut |_| {}));
        let mut merged = index::write::NewIndex::of_directory(directory.path(), "https://h").unwrap();
        if merged.merge(&path, &mut |_| {}).is_ok() {
            merged.write(&directory.path().join("merged.yaml"), text.len().is_multiple_of(2)).unwrap();
        }
    });
}

#[test]
fn names_of_maven() {
    let seeds = [
        "[1.0,2.0),(3,)",
        "1.0-alpha-1",
        "com.example.shop:cart:war:sources",
        "1.2-20260102.030405-7",
        "[,1]",
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    fuzz("maven", &seeds, &[Family::Semver], |text| {
        let told = String::from_utf8_lossy(text);
        let version = MavenVersion::parse(&told);
        assert_eq!(version.cmp(&version), std::cmp::Ordering::Equal, "{told:?}");
        let (left, right) = told.split_once(' ').unwrap_or((&told, "1.0"));
        let (left, right) = (MavenVersion::parse(left), MavenVersion::parse(right));
        assert_eq!(left.cmp(&right), right.cmp(&left).reverse(), "{told:?}");
        drop(MavenCoordinates::parse(&told));
        if let Ok(wish) = VersionWish::parse(&told) {
            black_box(wish.choose(["1.0", "1.0-SNAPSHOT", "2", &*told].into_iter()));
        }
    });
}
