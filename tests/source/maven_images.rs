//! `build-image`: a file of a Maven repository becomes a layer of an image in a real registry.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};
use windlass_testing::wait_until;

use super::registries::Registry;
use super::server::{Answer, Server};
use super::support::User;
use super::token_registry::{TokenRegistry, noted};

/// A path of the Maven repository, and one of the base's registry.
const SHOP: &str = "/maven/com/example/shop";
const OCI: &str = "application/vnd.oci.image";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// A file of a registry.
fn get(registry: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(registry).unwrap();
    let accept = format!("Accept: {OCI}.index.v1+json, {OCI}.manifest.v1+json");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {registry}\r\n{accept}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    assert!(answer.starts_with(b"HTTP/1.0 200"), "{path}: {}", String::from_utf8_lossy(&answer));
    answer.split_off(end + 4)
}

fn document(registry: &str, path: &str) -> Value {
    serde_json::from_slice(&get(registry, path)).unwrap()
}

/// A registry with a base image of two platforms, and a Maven repository.
struct Sources {
    server: Server,
}

impl Sources {
    fn new() -> Self {
        let sources = Self { server: Server::plain() };
        // More than one part of an upload.
        let layer: Vec<u8> = (0..9u32 << 20).map(|at| (at % 251) as u8).collect();
        let layer = sources.blob(&format!("{OCI}.layer.v1.tar+gzip"), &layer);
        let mut entries = Vec::new();
        for architecture in ["amd64", "arm64"] {
            let config = json!({
                "architecture": architecture, "os": "linux", "config": {"Cmd": ["run"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(b"base")]}, "history": [{"created_by": "base"}],
            });
            let config = sources.blob(&format!("{OCI}.config.v1+json"), config.to_string().as_bytes());
            let mut entry = sources.manifest(&json!({
                "schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json"), "config": config, "layers": [layer],
            }));
            entry["platform"] = json!({"architecture": architecture, "os": "linux"});
            entries.push(entry);
        }
        let about = json!({
            "mediaType": format!("{OCI}.manifest.v1+json"), "digest": digest(b"provenance"), "size": 10,
            "platform": {"architecture": "unknown", "os": "unknown"},
        });
        entries.push(about);
        let index =
            json!({"schemaVersion": 2, "mediaType": format!("{OCI}.index.v1+json"), "manifests": entries});
        sources.server.body("/v2/team/base/manifests/1", index.to_string());
        sources
    }

    fn blob(&self, media: &str, bytes: &[u8]) -> Value {
        self.server.body(&format!("/v2/team/base/blobs/{}", digest(bytes)), bytes);
        json!({"mediaType": media, "digest": digest(bytes), "size": bytes.len()})
    }

    fn manifest(&self, manifest: &Value) -> Value {
        let text = manifest.to_string();
        self.server.body(&format!("/v2/team/base/manifests/{}", digest(text.as_bytes())), text.clone());
        json!({"mediaType": manifest["mediaType"], "digest": digest(text.as_bytes()), "size": text.len()})
    }

    /// A file with its checksum.
    fn file(&self, version: &str, name: &str, content: &[u8]) {
        let path = format!("{SHOP}/{version}/{name}");
        self.server.body(&format!("{path}.sha512"), format!("{}  {name}\n", hex(&Sha512::digest(content))));
        self.server.body(&path, content);
    }

    fn versions(&self, versions: &[&str]) {
        let all: String = versions.iter().map(|version| format!("<version>{version}</version>")).collect();
        let text = format!("<metadata><versioning><versions>{all}</versions></versioning></metadata>");
        self.server.body(&format!("{SHOP}/maven-metadata.xml"), text);
    }

    fn host(&self) -> &str {
        self.server.url.strip_prefix("http://").unwrap()
    }

    /// The command, with further flags.
    fn command(&self, base: &str, tag: &str, more: &[&str]) -> Vec<String> {
        let repository = format!("{}/maven", self.server.url);
        let words =
            ["build-image", "com.example:shop", "--repository", &repository, "--base", base, "--tag", tag];
        let rest = ["--plain-http", "--path", "/config/dropins/", "-o", "json"];
        words.iter().chain(&rest).chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn base(&self) -> String {
        format!("{}/team/base:1", self.host())
    }
}

fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// The file in the last layer of each platform of an image; all that its manifests name is there.
fn files_of_image(registry: &str, repository: &str, tag: &str) -> Vec<(String, String, Vec<u8>)> {
    let index = document(registry, &format!("/v2/{repository}/manifests/{tag}"));
    let mut out = Vec::new();
    for entry in index["manifests"].as_array().unwrap() {
        let manifest =
            get(registry, &format!("/v2/{repository}/manifests/{}", entry["digest"].as_str().unwrap()));
        assert_eq!(
            (entry["digest"].as_str().unwrap(), entry["size"].as_u64().unwrap()),
            (digest(&manifest).as_str(), manifest.len() as u64)
        );
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let blob = |descriptor: &Value| {
            let bytes =
                get(registry, &format!("/v2/{repository}/blobs/{}", descriptor["digest"].as_str().unwrap()));
            assert_eq!(
                (digest(&bytes), bytes.len() as u64),
                (descriptor["digest"].as_str().unwrap().to_owned(), descriptor["size"].as_u64().unwrap())
            );
            bytes
        };
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        let layers: Vec<Vec<u8>> = manifest["layers"].as_array().unwrap().iter().map(blob).collect();
        let ids = config["rootfs"]["diff_ids"].as_array().unwrap();
        assert_eq!((layers.len(), config["history"].as_array().unwrap().len()), (ids.len(), ids.len()));
        assert_eq!(config["architecture"], entry["platform"]["architecture"]);
        assert_eq!(config["config"]["Cmd"][0], "run");
        let mut archive = Vec::new();
        GzDecoder::new(&layers[layers.len() - 1][..]).read_to_end(&mut archive).unwrap();
        assert_eq!(ids[ids.len() - 1], digest(&archive));
        let mut archive = tar::Archive::new(&archive[..]);
        let mut file = archive.entries().unwrap().next().unwrap().unwrap();
        let path = file.path().unwrap().display().to_string();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        out.push((config["architecture"].as_str().unwrap().to_owned(), path, content));
    }
    out
}

#[test]
fn a_file_becomes_a_layer_for_each_platform() {
    let (user, registry, sources) = (User::new(), Registry::start(false), Sources::new());
    sources.versions(&["1.0", "1.9", "1.10", "2.0", "2.1-SNAPSHOT"]);
    sources.file("1.10", "shop-1.10.war", b"the war of 1.10");
    let tag = format!("{}/team/shop:1", registry.host);
    let command = sources.command(&sources.base(), &tag, &["--artifact-version", "[1.0,1.99)"]);
    let built: Value = serde_json::from_str(&user.ok(&words(&command))).unwrap();
    assert_eq!((&built["version"], &built["image"]), (&json!("1.10"), &json!(tag)));
    assert_eq!(built["checksum"], format!("sha512:{}", hex(&Sha512::digest(b"the war of 1.10"))));
    let file = |architecture: &str, content: &[u8]| {
        (architecture.to_owned(), "config/dropins/shop.war".to_owned(), content.to_vec())
    };
    let content = b"the war of 1.10";
    assert_eq!(
        files_of_image(&registry.host, "team/shop", "1"),
        [file("amd64", content), file("arm64", content)]
    );
    let index = document(&registry.host, "/v2/team/shop/manifests/1");
    assert_eq!(index["annotations"]["org.opencontainers.image.version"], "1.10");
    assert_eq!(index["annotations"]["org.opencontainers.image.base.name"], sources.base());
    // The same inputs are the same image.
    let again: Value = serde_json::from_str(&user.ok(&words(&command))).unwrap();
    assert_eq!(again, built);

    // On it, in another repository of the registry: nothing but the new layer is uploaded.
    let snapshot = "<metadata><versioning><snapshot><timestamp>20260101.101112</timestamp><buildNumber>7</buildNumber></snapshot>\
        </versioning></metadata>";
    sources.server.body(&format!("{SHOP}/2.1-SNAPSHOT/maven-metadata.xml"), snapshot);
    sources.file("2.1-SNAPSHOT", "shop-2.1-20260101.101112-7.war", b"a snapshot");
    let second = format!("{}/other/shop:snap", registry.host);
    let command = sources.command(&tag, &second, &["--artifact-version", "LATEST"]);
    let built: Value = serde_json::from_str(&user.ok(&words(&command))).unwrap();
    assert_eq!(built["version"], "2.1-SNAPSHOT");
    assert_eq!(built["file"], "shop-2.1-20260101.101112-7.war");
    let made = files_of_image(&registry.host, "other/shop", "snap");
    assert_eq!(made, [file("amd64", b"a snapshot"), file("arm64", b"a snapshot")]);
}

#[test]
fn what_cannot_be_built_says_why() {
    let (user, registry, sources) = (User::new(), Registry::start(false), Sources::new());
    sources.versions(&["1.0", "1.1", "1.2", "1.3", "../../etc"]);
    sources.file("1.0", "shop-1.0.war", b"good");
    sources.server.body(&format!("{SHOP}/1.1/shop-1.1.war"), "no checksum");
    sources.server.body(&format!("{SHOP}/1.1/shop-1.1.war.md5"), hex(&[0; 16]));
    sources.file("1.2", "shop-1.2.war", b"expected");
    sources.server.body(&format!("{SHOP}/1.2/shop-1.2.war"), "another one");
    sources.file("1.3", "shop-1.3.war", b"cut");
    sources.server.answer(&format!("{SHOP}/1.3/shop-1.3.war"), Answer::Truncated(b"cu".to_vec()));
    let chart = json!({
        "schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json"), "layers": [],
        "config": sources.blob("application/vnd.cncf.helm.config.v1+json", b"{}"),
    });
    sources.server.body("/v2/team/base/manifests/chart", chart.to_string());
    sources.server.body("/v2/team/base/manifests/text", "hello");
    let (host, tag) = (sources.host().to_owned(), format!("{}/team/shop:1", registry.host));
    let (base, base_of) = (sources.base(), |tag: &str| format!("{host}/team/base:{tag}"));
    for (base, more, part) in [
        (&base, &["--artifact-version", "[3,)"][..], "none of 4 versions fits \"[3,)\""),
        (&base, &["--artifact-version", "../1"], "invalid version \"../1\""),
        (&base, &["--artifact-version", "0.9"], "404 Not Found"),
        (&base, &["--artifact-version", "1.1"], "there is no checksum beside it"),
        (&base, &["--artifact-version", "1.2"], "the checksum is "),
        (&base, &["--artifact-version", "1.3"], "unexpected EOF"),
        (&base, &["--artifact-version", "1.0", "--max-size", "3"], "larger than 3 bytes"),
        (&base, &["--artifact-version", "1.0", "--path", "/a/../b"], "--path: invalid path"),
        (&base, &["--artifact-version", "1.0", "--tag", "a b"], "--tag: "),
        (
            &base,
            &["--artifact-version", "1.0", "--repository", "ftp://x"],
            "write an http:// or https:// URL",
        ),
        (&base, &["--artifact-version", "1.0", "--password", "secret"], "needs --username"),
        (&base_of("none"), &["--artifact-version", "1.0"], "base image"),
        (&base_of("chart"), &["--artifact-version", "1.0"], "rootfs.diff_ids"),
        (&base_of("text"), &["--artifact-version", "1.0"], "its manifest is malformed"),
    ] {
        let mut command = sources.command(base, &tag, &[]);
        // A flag that is given twice counts as it is given last.
        for pair in more.chunks(2) {
            match command.iter().position(|word| word == pair[0]) {
                Some(at) => pair[1].clone_into(&mut command[at + 1]),
                None => command.extend(pair.iter().map(|word| (*word).to_owned())),
            }
        }
        let error = user.fails(&words(&command));
        assert!(error.contains(part), "{more:?}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_login_goes_to_the_maven_repository_alone() {
    let (user, registry, sources) = (User::new(), Registry::start(false), Sources::new());
    let elsewhere = Server::plain();
    elsewhere.body("/shop.war", "moved");
    sources.file("1.0", "shop-1.0.war", b"moved");
    sources
        .server
        .answer(&format!("{SHOP}/1.0/shop-1.0.war"), Answer::Redirect(format!("{}/shop.war", elsewhere.url)));
    sources.server.guard(|asked| {
        !asked.path.starts_with("/maven")
            || asked.headers.get("authorization").is_some_and(|text| text == "Basic bWU6c2VjcmV0")
    });
    let tag = format!("{}/team/shop:1", registry.host);
    let login = ["--artifact-version", "1.0", "--username", "me", "--password", "secret"];
    user.ok(&words(&sources.command(&sources.base(), &tag, &login)));
    assert!(
        elsewhere.asked().iter().all(|asked| !asked.headers.contains_key("authorization")),
        "{:?}",
        elsewhere.asked()
    );
    let of_registry = sources.server.asked().into_iter().filter(|asked| asked.path.starts_with("/v2/"));
    assert!(of_registry.into_iter().all(|asked| !asked.headers.contains_key("authorization")));
    let error = user.fails(&words(&sources.command(&sources.base(), &tag, &["--artifact-version", "1.0"])));
    assert!(error.contains("401"), "{error}");
}

#[test]
fn a_layer_is_mounted_with_a_token_for_both_repositories() {
    let (user, registry, sources) = (User::new(), TokenRegistry::start(), Sources::new());
    sources.file("1.0", "shop-1.0.war", b"the war");
    let own = |repository: &str| format!("repository:{repository}:pull,push");
    for repository in ["team/shop", "other/shop", "third/shop"] {
        registry.grant(&[&own(repository)], &[&own(repository)]);
    }
    let base = "repository:team/shop:pull";
    registry.grant(&[base], &[base]);
    let first = format!("{}/team/shop:1", registry.host);
    let build = |base: &str, tag: &str| {
        let command = sources.command(base, tag, &["--artifact-version", "1.0", "--path", "/config/more/"]);
        user.ok(&words(&command));
    };
    build(&sources.base(), &first);
    registry.asked();

    // Both scopes at once: a token for one repository alone mounts nothing.
    let mut asked = Vec::new();
    let mut of_blob = |repository: &str, digest: &str| {
        let found = wait_until("the registry notes the blob", std::time::Duration::from_secs(20), || {
            asked.extend(registry.asked());
            let mut all = noted(&asked, repository).into_iter();
            Ok(all.find(|(action, of, _)| of == digest && action != "pull"))
        });
        let (action, _, from) = found.unwrap();
        (action, from)
    };
    let layer: Vec<u8> = (0..9u32 << 20).map(|at| (at % 251) as u8).collect();
    let layer = digest(&layer);
    for (repository, granted, expected) in [
        ("other/shop", &[own("other/shop"), base.to_owned()][..], ("mount", "team/shop")),
        // Whose token may not read the other repository copies the layer.
        ("third/shop", &[own("third/shop")], ("push", "")),
    ] {
        let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
        registry.grant(&[&own(repository), base], &granted);
        build(&first, &format!("{}/{repository}:1", registry.host));
        let (action, from) = of_blob(repository, &layer);
        assert_eq!((action.as_str(), from.as_str()), expected, "{repository}");
    }
    let scopes = "&scope=repository%3Aother%2Fshop%3Apull%2Cpush&scope=repository%3Ateam%2Fshop%3Apull";
    assert!(asked.iter().any(|asked| asked.path.ends_with(scopes)), "{asked:?}");
}
