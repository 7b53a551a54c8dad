//! Nothing in archives of sources and in addresses makes a fetch panic, hang, eat the machine or write elsewhere.

use std::fs;
use std::io::{self, Cursor, Write as _};
use std::net::IpAddr;
use std::path::Path;

use chart_compat::tar_reader::{TarBounds, read_tar};
use helmfile_compat::paths;
use windlass_artifacts::{FileBounds, files_below, inner_path};
use windlass_base::local_address::is_local;
use windlass_fetch::address_guard::Server;
use windlass_fetch::archive::{ArchiveKind, unpack};
use windlass_fetch::byte_budget::ByteBudget;
use windlass_fetch::chart_reference::ChartReference;
use windlass_fetch::git::remote::GitRevision;
use windlass_fetch::location::{Location, same_repository, without_secrets, without_user};
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_flux::sources::unpack_artifact;
use windlass_helmfile::addresses::address::Address;
use windlass_helmfile::addresses::object_address::ObjectAddress;
use windlass_helmfile::bundle::bundle_archive;

use super::{fuzz, packed, tars};

/// Entries of all kinds that an archive may have, long names among them.
fn all_kinds() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_pax_extensions([("path", &b"pax/name"[..]), ("size", b"1"), ("mtime", b"1.5")]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(1);
    header.set_path("x").unwrap();
    header.set_cksum();
    tar.append(&header, &b"x"[..]).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    tar.append_data(&mut header, format!("{}f", "d/".repeat(120)), &b"abc"[..]).unwrap();
    for (kind, to) in
        [(tar::EntryType::Symlink, "../f"), (tar::EntryType::Link, "d/f"), (tar::EntryType::Directory, "d")]
    {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        tar.append_link(&mut header, "link", to).unwrap();
    }
    tar.into_inner().unwrap()
}

fn zipped() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("d/a.txt", options.unix_permissions(0o755)).unwrap();
    zip.write_all(&[b'a'; 500]).unwrap();
    zip.add_directory("e", options).unwrap();
    zip.add_symlink("l", "d/a.txt", options).unwrap();
    zip.finish().unwrap().into_inner()
}

/// Unpacks below a new directory, and fails if anything else was written.
fn below(unpack: impl FnOnce(&Path)) {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    unpack(&inner);
    let names =
        |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!((names(outer.path()), names(&outer.path().join("a"))), (vec!["a".into()], vec!["b".into()]));
}

/// What all readers of archives make of one.
fn unpacked(bytes: &[u8]) {
    for kind in
        [ArchiveKind::Tar, ArchiveKind::TarGzip, ArchiveKind::TarXz, ArchiveKind::TarZstd, ArchiveKind::Zip]
    {
        below(|directory| drop(unpack(bytes, kind, directory, &ByteBudget::new(64 << 20))));
    }
    below(|directory| drop(unpack_artifact(bytes, bytes.len() as u64, directory)));
    let bounds = FileBounds { files: 10, file_bytes: 1 << 20, bytes: 4 << 20, depth: 16 };
    for directory in ["", "d"] {
        let parts = inner_path(directory).unwrap();
        let files = files_below(bytes, &parts, |_| Ok(true), bounds).unwrap_or_default();
        assert!(files.len() <= bounds.files && files.iter().all(|file| inner_path(&file.path).is_some()));
    }
    below(|directory| drop(bundle_archive::unpack(bytes, directory)));
}

#[test]
fn archives_of_sources() {
    let mut tars = tars();
    tars.truncate(4);
    tars.push(all_kinds());
    fuzz("source archives, inside", &tars, &[], |tar| {
        let bounds = TarBounds::of_compressed(tar.len() as u64, 1 << 20, 100);
        drop(read_tar(tar, bounds, |entry| {
            let _ = (entry.path()?, entry.link()?, entry.is_file(), entry.is_executable(), entry.size());
            io::copy(entry, &mut io::sink()).map(drop)
        }));
        unpacked(tar);
        unpacked(&packed(tar));
    });
    let mut archives: Vec<Vec<u8>> = tars.iter().map(|tar| packed(tar)).collect();
    archives.push(zipped());
    let bundle = tempfile::tempdir().unwrap();
    fs::create_dir(bundle.path().join("files")).unwrap();
    fs::write(bundle.path().join("files/helmfile.yaml"), "releases: []\n").unwrap();
    archives.push(bundle_archive::pack(bundle.path()).unwrap());
    fuzz("source archives, outside", &archives, &[], unpacked);
}

/// Whether two texts are one name, or forms of one address.
fn same_host(a: &str, b: &str) -> bool {
    let address = |host: &str| host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    match (address(a), address(b)) {
        (None, None) => a.eq_ignore_ascii_case(b),
        (a, b) => a == b,
    }
}

#[test]
fn addresses() {
    let seeds: Vec<Vec<u8>> = [
        "https://u:p@example.com:8443/a/b.tgz?x=1&y=%2f#z",
        "http://[::ffff:127.0.0.1]:80/",
        "http://127.0.0.%31/r",
        "ssh://git@10.0.0.1:22/r.git",
        "git::https://h/r.git//dir@file.yaml?ref=v1&sshkey=x",
        "git@github.com:a/b.git",
        "s3::https://s3-eu-west-1.amazonaws.com/bucket/key",
        "s3://bucket/key?region=eu",
        "gcs::https://www.googleapis.com/storage/v1/b/o",
        "oci://h:5000/a/b:1.0.0@sha256:abc",
        "git+https://h/r.git//web?ref=v1",
        "socks5h://127.1:9",
        "file:///etc/passwd",
        "semver:>=1.0.0 <2",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    fuzz("addresses", &seeds, &[], |text| {
        let told = String::from_utf8_lossy(text);
        if let Ok(server) = Server::of_url(&told) {
            // Whoever else reads it reads the same host: the HTTP client, the readers of charts' and of helmfile's addresses.
            let url = reqwest::Url::parse(&told).ok();
            let host = url.as_ref().and_then(|url| url.host_str());
            assert!(host.is_none_or(|host| same_host(host, &server.host)), "{told:?}: {server:?}");
            if let Ok(location) = Location::parse(&told) {
                assert!(same_host(location.hostname(), &server.host), "{told:?}: {server:?}");
            }
            let local = server.address().is_some_and(is_local);
            assert!(!local || server.check_text().is_err(), "{told:?}");
        }
        if let Ok(location) = Location::parse(&told) {
            let _ = (
                location.origin(),
                location.target(),
                location.file_name(),
                location.address(),
                location.is_loopback(),
            );
            assert!(
                !format!("{location}").contains('@')
                    || location.path.contains('@')
                    || location.query.is_some(),
                "{told:?}"
            );
            drop(location.join(&told));
            drop(location.join("../x?y"));
            drop(location.within(&told));
        }
        drop(ChartReference::parse(&told));
        drop(OciReference::parse(&told));
        drop(GitRevision::of_reference(&told));
        if let Ok(address) = Address::parse(&told) {
            let _ = (
                address.without_login(),
                address.whole(),
                address.parameter("ref"),
                address.query_without(&["ref"]),
            );
            drop(ObjectAddress::of(&address));
            below(|root| {
                if let Ok(path) = address.below(root) {
                    assert!(Path::new(&path).starts_with(root), "{told:?}: {path}");
                }
            });
        }
        let _ = (without_secrets(&told), without_user(&told), same_repository(&told, "https://h/r"));
        let _ = (paths::is_remote(&told), paths::detected_repository(&told), paths::is_local_chart(&told));
    });
}
