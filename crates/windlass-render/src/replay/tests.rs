//! Equal inputs give equal bytes, and an edited chart keeps its passwords.

use std::sync::atomic::{AtomicI64, Ordering};

use chart_compat::chart::{File, load_files};
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, Release};
use chart_compat::template::Limits;

use super::*;
use crate::SystemWorld;

/// The real world with a clock that the test sets, and one object.
struct Clock {
    seconds: AtomicI64,
    found: Mutex<Data>,
}

impl Clock {
    fn at(seconds: i64) -> Self {
        Self { seconds: AtomicI64::new(seconds), found: Mutex::new(Data::Map(Map::new())) }
    }
}

impl World for Clock {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: self.seconds.load(Ordering::Relaxed), nanos: 5 }
    }
    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }
    fn random(&self, bytes: &mut [u8]) {
        SystemWorld::default().random(bytes);
    }
    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        // Certificates need any key, and this kind is quick to make.
        let _ = kind;
        SystemWorld::default().make_key(KeyKind::EcdsaP256)
    }
    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        SystemWorld::default().public_key(pkcs8)
    }
    fn sign(&self, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
        SystemWorld::default().sign(pkcs8, message)
    }
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Ok(self.found.lock().unwrap().clone())
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

fn chart(files: &[(&str, &str)]) -> CompiledChart {
    let head = ("Chart.yaml", "{apiVersion: v2, name: c, version: 1.0.0}");
    let files =
        std::iter::once(&head).chain(files).map(|(n, t)| File::new((*n).to_owned(), t.as_bytes().to_vec()));
    CompiledChart::new(
        load_files(files.collect(), Profile::Helm4, &mut |w| panic!("{w}")).unwrap(),
        Profile::Helm4,
    )
}

fn again(
    chart: &CompiledChart,
    user: &Map,
    world: &Clock,
    memory: &mut GeneratedValues,
) -> (BTreeMap<String, String>, Replayed) {
    let options = Options {
        release: Release { name: "r".to_owned(), namespace: "n".to_owned(), revision: 1, is_upgrade: false },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let known = memory.clone();
    let done =
        render(chart, user, &options, world, &move || Ok(known.clone()), &mut |w| panic!("{w}")).unwrap();
    if let Some(new) = &done.memory {
        // As decoded from a Secret.
        *memory = serde_json::from_slice(&serde_json::to_vec(new).unwrap()).unwrap();
    }
    let lines = done.rendered.manifests.iter().flat_map(|m| m.text.lines());
    let lines = lines.filter_map(|l| l.split_once(": ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    (lines, done)
}

#[test]
fn unchanged_inputs_render_unchanged_bytes() {
    let all = "a: {{ randAlphaNum 12 }}\nb: {{ randAlphaNum 12 }}\nc: {{ uuidv4 }}\nd: {{ now | unixEpoch }}\n\
               e: {{ htpasswd \"u\" \"p\" }}\nf: {{ randInt 0 1000000000 }}\ng: {{ \"abcdefghijklmnop\" | shuffle }}\n\
               h: {{ (genCA \"x\" 30).Cert | b64enc }}\ni: {{ encryptAES \"k\" \"v\" }}\nj: {{ date \"05\" \"\" }}\n";
    let (chart, world, mut memory) =
        (chart(&[("templates/x.yaml", all)]), Clock::at(1_000_000), GeneratedValues::default());
    let (first, done) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!(first.len(), 10);
    assert_ne!(first["a"], first["b"], "two calls are two values");
    assert!(done.memory.is_some());
    world.seconds.store(1_000_100, Ordering::Relaxed);
    let (second, done) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!(first, second);
    assert!(done.memory.is_none(), "nothing new is to be kept");
    // Other values: the time advances, random values stay.
    let user = Map::from([("x".to_owned(), Data::Bool(true))]);
    let (third, _) = again(&chart, &user, &world, &mut memory);
    let moved: Vec<&str> = first.keys().filter(|k| first[*k] != third[*k]).map(String::as_str).collect();
    assert_eq!(moved, ["d", "j"]);
    assert_eq!(third["d"], "1000100");
}

#[test]
fn an_edited_chart_keeps_its_passwords() {
    let helpers = "{{ define \"pw\" }}{{ randAlphaNum 10 }}{{ end }}";
    let before = "{{ range list \"x\" \"y\" }}\n{{ . }}: {{ randAlphaNum 8 }}\n{{ end }}\nroot: {{ include \"pw\" (dict \"key\" \"root\" \"ctx\" $) }}\n";
    let after = "# other lines\nnew: {{ uuidv4 }}\nuser: {{ include \"pw\" (dict \"key\" \"user\" \"ctx\" $) | quote }}\n\
                 root: {{ include \"pw\" (dict \"key\" \"root\" \"ctx\" $) }}\n{{ range list \"z\" \"y\" \"x\" }}\n{{ . }}: {{ randAlphaNum 8 }}\n{{ end }}\n";
    let (world, mut memory) = (Clock::at(1), GeneratedValues::default());
    let old = chart(&[("templates/_h.tpl", helpers), ("templates/s.yaml", before)]);
    let new = chart(&[("templates/_h.tpl", helpers), ("templates/s.yaml", after)]);
    let (first, _) = again(&old, &Map::new(), &world, &mut memory);
    let (second, _) = again(&new, &Map::new(), &world, &mut memory);
    for key in ["x", "y", "root"] {
        assert_eq!(first[key], second[key], "{key}");
    }
    assert_ne!(second["user"].trim_matches('"'), second["root"]);
    assert_ne!(second["x"], second["y"]);
    // An unused value is returned again when its call comes back, until it has been idle for long.
    let (third, _) = again(&old, &Map::new(), &world, &mut memory);
    assert_eq!(first, third);
    let user = |n: i64| Map::from([("n".to_owned(), Data::Int(n))]);
    let empty = chart(&[("templates/s.yaml", "at: {{ now | unixEpoch }}\n")]);
    for n in 0..12 {
        again(&empty, &user(n), &world, &mut memory);
    }
    assert!(memory.values.is_empty());
}

#[test]
fn an_included_file_prints_what_it_prints_itself() {
    let files = [
        ("templates/secret.yaml", "password: {{ randAlphaNum 10 }}"),
        (
            "templates/deploy.yaml",
            "sum: {{ include (print $.Template.BasePath \"/secret.yaml\") . | sha256sum }}\n",
        ),
    ];
    let (lines, _) = again(&chart(&files), &Map::new(), &Clock::at(1), &mut GeneratedValues::default());
    let secret = format!("password: {}", lines["password"]);
    assert_eq!(lines["sum"], hex(&Sha256::digest(secret.as_bytes())));
}

#[test]
fn certificates_are_renewed_at_two_thirds_of_their_life() {
    const DAY: i64 = 86_400;
    let text = "{{ $ca := genCA \"x\" 30 }}\nca: {{ $ca.Cert | b64enc }}\nkey: {{ randAlpha 9 }}\n\
                cert: {{ (genSignedCert \"y\" nil nil 15 $ca).Cert | b64enc }}\n";
    let (chart, world, mut memory) =
        (chart(&[("templates/x.yaml", text)]), Clock::at(0), GeneratedValues::default());
    let (first, done) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!(done.renew_at, Some(10 * DAY));
    world.seconds.store(10 * DAY - 1, Ordering::Relaxed);
    let (same, done) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!((&first, done.renewed.len()), (&same, 0));
    world.seconds.store(10 * DAY, Ordering::Relaxed);
    let (second, done) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!(done.renewed, ["genSignedCert in c/templates/x.yaml"]);
    assert_eq!((&first["ca"], &first["key"]), (&second["ca"], &second["key"]));
    assert_ne!(first["cert"], second["cert"]);
    assert_eq!(done.renew_at, Some(20 * DAY));
    world.seconds.store(20 * DAY, Ordering::Relaxed);
    let (third, done) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!(done.renewed, ["genCA in c/templates/x.yaml"]);
    assert_ne!(second["cert"], third["cert"], "a new authority signs anew");
    assert_eq!(second["key"], third["key"]);
}

#[test]
fn the_time_moves_when_what_was_looked_up_does() {
    let text = "found: {{ (lookup \"v1\" \"Node\" \"\" \"n\").x }}\nat: {{ now | unixEpoch }}\n";
    let (chart, world, mut memory) =
        (chart(&[("templates/x.yaml", text)]), Clock::at(1), GeneratedValues::default());
    let (first, done) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!((done.lookups.len(), first["at"].as_str()), (1, "1"));
    world.seconds.store(2, Ordering::Relaxed);
    assert_eq!(again(&chart, &Map::new(), &world, &mut memory).0["at"], "1");
    *world.found.lock().unwrap() = Data::Map(Map::from([("x".to_owned(), Data::from("new"))]));
    let (moved, _) = again(&chart, &Map::new(), &world, &mut memory);
    assert_eq!((moved["found"].as_str(), moved["at"].as_str()), ("new", "2"));
    world.seconds.store(3, Ordering::Relaxed);
    assert_eq!(again(&chart, &Map::new(), &world, &mut memory).0, moved);
}

#[test]
fn a_memory_that_cannot_be_read_stops_the_render() {
    let chart = chart(&[("templates/x.yaml", "a: {{ randAlpha 3 }}\n")]);
    let options = Options {
        release: Release { name: "r".to_owned(), namespace: "n".to_owned(), revision: 1, is_upgrade: false },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let broken = || Err("gone".to_owned());
    let result = render(&chart, &Map::new(), &options, &Clock::at(1), &broken, &mut |w| panic!("{w}"));
    assert_eq!(
        result.err().map(|e| e.to_string()).as_deref(),
        Some("values that earlier renders generated cannot be read: gone")
    );
}
