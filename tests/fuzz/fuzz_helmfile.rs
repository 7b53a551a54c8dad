//! Nothing in state files, in values in HCL and in secret references makes the evaluation of a helmfile panic, hang or eat the machine.

use std::path::Path;
use std::time::Duration;

use chart_compat::world::World;
use helmfile_compat::host::{Entry, Forbidden, Host, Program, RenderMemory};
use helmfile_compat::value::Value;
use helmfile_compat::visit::Query;
use helmfile_compat::{Error, document, hcl, lock, secret_references, selector::Selector};
use windlass_differential::Family;
use windlass_helmfile::commands::{build, list, show_dag};
use windlass_helmfile::local_host::SecretStore;
use windlass_helmfile::secrets::{LocalSecrets, Secrets};
use windlass_render::{RenderBounds, SystemWorld};

use super::fuzz_kustomize::Memory;
use super::{fuzz, texts};

/// The state file of a case that names none.
const STATE: &str = "/helmfile.yaml.gotmpl";

/// The files of a case, secrets without a server, and nothing else.
struct Files {
    files: Memory,
    world: SystemWorld<'static>,
    secrets: Secrets,
}

impl Files {
    fn of(text: &[u8]) -> Self {
        let bounds = RenderBounds { memory: 32 << 20, timeout: Duration::from_secs(2) };
        let world = SystemWorld::until(bounds.deadline(), None);
        let files = Memory::read_as(&String::from_utf8_lossy(text), STATE);
        Self { files, world, secrets: secrets() }
    }
}

/// Those of a tenant.
fn secrets() -> Secrets {
    let variables = [("A".to_owned(), "a: {b: c}".to_owned())].into();
    let root = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned());
    Secrets::of_tenant(LocalSecrets { variables: Some(variables), root, ..LocalSecrets::default() })
}

fn refused<T>() -> Result<T, Error> {
    Err(Error::host("nothing is outside"))
}

impl Host for Files {
    fn world(&self) -> &dyn World {
        &self.world
    }

    fn render_memory(&self) -> RenderMemory {
        RenderMemory { bytes: 32 << 20, held: None }
    }

    fn without_logins(&self, text: &str) -> String {
        text.to_owned()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.files.file(path).ok_or_else(|| Error::host(format!("open {path}: no such file or directory")))
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        if self.files.is_directory(path) { Some(true) } else { self.files.file(path).map(|_| false) }
    }

    fn read_dir(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let names = self.files.entries(path);
        if names.is_empty() {
            return Err(Error::host(format!("open {path}: no such file or directory")));
        }
        Ok(names.into_iter().map(|(name, is_dir)| Entry { name, is_dir }).collect())
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "A").then(|| "a".repeat(100))
    }

    fn forbids(&self, _: Forbidden) -> Option<String> {
        None
    }

    fn run(&self, _: &Program) -> Result<String, Error> {
        refused()
    }

    fn fetch(&self, _: &str, _: &str) -> Result<String, Error> {
        refused()
    }

    fn secret(&self, reference: &str, dir: &str) -> Result<Value, Error> {
        Ok(self.secrets.secret(reference, dir)?)
    }

    fn decrypt(&self, _: &str) -> Result<Vec<u8>, Error> {
        refused()
    }

    fn warn(&self, _: &str) {}
}

/// The fixtures of helmfile, each without the words of its command.
fn cases() -> Vec<Vec<u8>> {
    let cases = texts("helmfile", &|path| path.ends_with("files.txt"));
    cases
        .into_iter()
        .map(|text| text.into_iter().skip_while(|byte| *byte != b'\n').skip(1).collect())
        .collect()
}

#[test]
fn state_files() {
    fuzz("state files", &cases(), &[Family::Yaml, Family::Template], |text| {
        let files = Files::of(text);
        drop(build(&files, &Query::default(), "/", true, &|_| false));
        drop(list(&files, &Query::default(), "/", false));
        drop(show_dag(&files, &Query::default(), "/"));
    });
}

#[test]
fn documents_of_state_files() {
    let mut seeds = texts("yaml/documents", &|_| true);
    seeds.push(b"version: 1.8.0\ndependencies:\n- {name: web, repository: https://h/r, version: 1.2.3}\n- name: db\n  version: 2.0.0-rc.1\ndigest: sha256:00\n".to_vec());
    seeds.push(b"name=web,tier!=db, namespace=n".to_vec());
    fuzz("state documents", &seeds, &[Family::Yaml], |text| {
        let told = String::from_utf8_lossy(text);
        drop(document::documents(&told));
        drop(document::map(&told));
        drop(lock::read(&told));
        drop(Selector::parse(&told));
    });
}

#[test]
fn values_in_hcl() {
    let mut seeds: Vec<Vec<u8>> = [
        "locals {\n a = 1\n b = [for x in range(3) : x * local.a if x > 0]\n}\nvalues {\n c = \"${hv.d}-%{ if local.a > 0 }x%{ endif }\"\n d = \
         merge({k = \"v\"}, {l = local.b[*]})\n}\n",
        "values {\n a = try(jsondecode(\"{}\").x, \"y\")\n b = can(regex(\"a+\", \"aa\"))\n c = cidrsubnet(\"10.0.0.0/8\", 8, 2)\n d = yamldecode(\"a: \
         [1]\")\n e = csvdecode(\"a,b\\n1,2\")\n f = formatdate(\"YYYY\", \"2024-01-02T03:04:05Z\")\n}\n",
        "values {\n a = <<EOT\n  x ${upper(\"y\")}\nEOT\n b = { for k, v in {x = 1} : k => v... }\n c = setproduct([1, 2], [3])\n d = \
         format(\"%5d|%-5s|%q\", 1, \"a\", \"b\")\n}\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    for case in cases() {
        let memory = Memory::read_as(&String::from_utf8_lossy(&case), STATE);
        seeds.extend(memory.files().filter(|(name, _)| name.ends_with(".hcl")).map(|(_, text)| text.clone()));
    }
    fuzz("hcl", &seeds, &[], |text| {
        let text = String::from_utf8_lossy(text).into_owned();
        drop(hcl::evaluate(&[("values.hcl".to_owned(), text)]));
    });
}

#[test]
fn references_to_secrets() {
    let seeds: Vec<Vec<u8>> = [
        "ref+env://A#/a/b",
        "a ref+echo://x/y/z#/x/y+ b ref+echo://ref+env://A+/c#/d",
        "secretref+file:///etc/passwd?encode=base64",
        "ref+sops://YTogYgo=?key_type=base64&format=yaml#/a",
        "ref+vault://h/a/b?address=https://h:1&role_id=x#/c",
        "ref+k8s://v1/Secret/n/s/k",
        "ref+azurekeyvault://a.vault.azure.net/b",
        "ref+awssecrets://a?region=eu-west-1#/b",
        "ref+envsubst://$A${A}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    let store = secrets();
    fuzz("references", &seeds, &[], |text| {
        let told = String::from_utf8_lossy(text).into_owned();
        drop(store.secret(&told, "/"));
        let files = Files::of(b"");
        drop(secret_references::expand(&files, "/", Value::String(told)));
    });
}
