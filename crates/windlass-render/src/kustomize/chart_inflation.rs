//! `helmCharts`: charts rendered in process, as kustomize has `helm template` render them.
//!
//! Owns what the fields of an item mean: where the chart comes from, its values, its release.

mod chart_values;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{
    Capabilities, Hook, KubeVersion, Options, Release, release_name_error, template_pieces,
};
use kustomize_compat::load::{Chart, ReadFile};

use crate::RenderPermit;
use crate::{Documents, RenderBounds, RenderRequest, release_name};
use windlass_base::blocking;
use windlass_fetch::Loaded;
use windlass_fetch::fetch::{self, ChartBytes, Fetcher};
use windlass_fetch::installable::check_installable;
use windlass_fetch::repositories::Repositories;

/// Where a chart was fetched from: repository, name, version and configuration.
type Origin = (String, String, String, String);

/// How charts are rendered.
pub struct ChartSettings<'s> {
    /// Fetches charts that are not there, with the user's credentials.
    pub fetcher: Fetcher,
    /// Which Helm to render as.
    pub profile: Profile,
    /// The limits of a render.
    pub bounds: RenderBounds,
    /// Loads documents that schemas of values refer to.
    pub documents: Option<&'s dyn Documents>,
    /// The Kubernetes version of charts without `kubeVersion`.
    pub kube_version: String,
    /// The API versions of charts without `apiVersions`.
    pub api_versions: Vec<String>,
    /// Packages that this build has fetched.
    pub fetched: Fetched,
}

/// The directory of a chart on disk, which need not exist.
pub(super) fn directory(chart: &Chart) -> PathBuf {
    Item { chart }.directory()
}

/// The packages that a build has fetched, each once.
#[derive(Default)]
pub struct Fetched(RefCell<HashMap<Origin, (Bytes, String)>>);

/// An item of `helmCharts`.
struct Item<'c> {
    chart: &'c Chart,
}

impl Item<'_> {
    fn text(&self, key: &str) -> &str {
        self.chart.fields.get(key).and_then(Data::as_str).unwrap_or_default()
    }

    fn is_set(&self, key: &str) -> bool {
        matches!(self.chart.fields.get(key), Some(Data::Bool(true)))
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let list = self.chart.fields.get(key).and_then(Data::as_list).unwrap_or_default();
        list.iter().filter_map(Data::as_str).map(str::to_owned).collect()
    }

    fn inline(&self) -> Option<&Map> {
        self.chart.fields.get("valuesInline").and_then(Data::as_map).filter(|map| !map.is_empty())
    }

    /// The directory of the chart.
    fn directory(&self) -> PathBuf {
        let home = if self.chart.chart_home.is_empty() { "charts" } else { &self.chart.chart_home };
        let mut directory = Path::new(&self.chart.root).join(home);
        let (name, version) = (self.text("name"), self.text("version"));
        if !version.is_empty() && !self.text("repo").is_empty() {
            directory.push(format!("{name}-{version}"));
        }
        windlass_fetch::clean(&directory.join(name))
    }

    /// The release's name, as `helm template` takes it from arguments and `--name-template`.
    fn release_name(&self) -> Result<String, String> {
        let name = match (self.text("releaseName"), self.text("nameTemplate")) {
            ("", "") => "release-name".to_owned(),
            ("", template) => release_name(template)?,
            (name, "") => name.to_owned(),
            (_, _) => return Err("cannot set --name-template and also specify a name".to_owned()),
        };
        match release_name_error(&name) {
            Some(text) => Err(format!("release name check failed: {text}")),
            None => Ok(name),
        }
    }
}

impl ChartSettings<'_> {
    /// Renders a chart as `helm template` prints it.
    pub(super) fn inflate(
        &self,
        chart: &Chart,
        read: &ReadFile<'_>,
        permit: &RenderPermit,
        warn: &dyn Fn(&str),
    ) -> Result<String, String> {
        let item = Item { chart };
        let failed = |e: String| format!("helmCharts: chart {:?}: {e}", item.text("name"));
        let loaded = self.load(&item, permit, warn)?;
        loaded.warnings.iter().for_each(|line| warn(line));
        check_installable(&loaded.chart, self.profile, &mut |line| warn(line))
            .map_err(|e| failed(e.to_string()))?;
        let values = chart_values::of(&item, &loaded.chart, read, self.profile).map_err(failed)?;
        let options = self.options(&item).map_err(failed)?;
        let (compiled, deadline) = (loaded.compile(self.profile), self.bounds.deadline());
        let request = RenderRequest {
            documents: self.documents,
            ..RenderRequest::new(&compiled, &values, &options, deadline)
        };
        let rendered = request.render(&mut |line| warn(&line)).map_err(|e| failed(e.to_string()))?;
        let is_test = |hook: &Hook| hook.events.iter().any(|event| event == "test");
        let (skips_hooks, skips_tests) = (item.is_set("skipHooks"), item.is_set("skipTests"));
        let wanted = |hook: &Hook| !(skips_hooks || skips_tests && is_test(hook));
        let text = template_pieces(&rendered, item.is_set("includeCRDs"), wanted).concat();
        String::from_utf8(text).map_err(|_| failed("the manifests are not UTF-8".to_owned()))
    }

    fn options(&self, item: &Item<'_>) -> Result<Options, String> {
        let mut capabilities = Capabilities::default();
        self.profile.helm_version().clone_into(&mut capabilities.helm_version);
        let version = match item.text("kubeVersion") {
            "" => self.kube_version.as_str(),
            version => version,
        };
        if !version.is_empty() {
            capabilities.kube_version =
                KubeVersion::parse(version).map_err(|e| format!("invalid kube version '{version}': {e}"))?;
        }
        let own = item.texts("apiVersions");
        capabilities.api_versions.extend(if own.is_empty() { self.api_versions.clone() } else { own });
        let namespace = match item.text("namespace") {
            "" => "default",
            namespace => namespace,
        };
        Ok(Options {
            release: Release {
                name: item.release_name()?,
                namespace: namespace.to_owned(),
                revision: 1,
                is_upgrade: false,
            },
            capabilities,
            skip_schema_validation: false,
            subchart_notes: false,
            limits: self.bounds.limits(),
        })
    }

    /// The chart: from its directory, or fetched.
    fn load(&self, item: &Item<'_>, permit: &RenderPermit, warn: &dyn Fn(&str)) -> Result<Loaded, String> {
        let directory = item.directory();
        if directory.is_dir() {
            if let Some(store) = &self.fetcher.inputs {
                store.note_chart(&directory)?;
            }
            return windlass_fetch::load(&directory, self.profile).map_err(|e| e.to_string());
        }
        if item.text("repo").is_empty() {
            let path = directory.display();
            return Err(format!("no repo specified for pull, no chart found at '{path}'"));
        }
        let (bytes, file_name) = permit.without(|| self.fetch(item, warn))?;
        windlass_fetch::load_package(&bytes, Path::new(&file_name), self.profile).map_err(|e| e.to_string())
    }

    fn fetch(&self, item: &Item<'_>, warn: &dyn Fn(&str)) -> Result<(Bytes, String), String> {
        let [repository, name, version] = ["repo", "name", "version"].map(|key| item.text(key).to_owned());
        let mut options = match version.as_str() {
            "" if item.is_set("devel") => of_version(">0.0.0-0"),
            version => of_version(version),
        };
        let configuration = item.chart.config_home.clone();
        let key = (repository.clone(), name.clone(), options.version.clone(), configuration);
        if let Some(known) = self.fetched.0.borrow().get(&key) {
            return Ok(known.clone());
        }
        let failed = |e: &dyn std::fmt::Display| format!("helmCharts: chart {name:?} of {repository}: {e}");
        let fetcher = self.fetcher_of(&item.chart.config_home);
        let reference = match repository.starts_with("oci://") {
            true => format!("{}/{name}", repository.trim_end_matches('/')),
            false => {
                with_login(&fetcher, &repository, &mut options).map_err(|e| failed(&e))?;
                options.repository = Some(repository.clone());
                name.clone()
            }
        };
        let mut lines = Vec::new();
        let runtime = blocking::runtime().map_err(|e| failed(&e))?;
        let fetched = runtime.block_on(fetcher.fetch(&reference, &options, &mut |line| lines.push(line)));
        lines.iter().for_each(|line| warn(line));
        let ChartBytes { bytes, file_name, .. } = fetched.map_err(|e| failed(&e))?;
        // A copy: it stays for the whole build, and must not keep the memory that large downloads share.
        self.fetched.0.borrow_mut().insert(key, (Bytes::copy_from_slice(&bytes), file_name.clone()));
        Ok((bytes, file_name))
    }

    /// The fetcher, with the repositories and logins of `helmGlobals.configHome` if it is set.
    fn fetcher_of(&self, config_home: &str) -> Fetcher {
        let mut home = self.fetcher.home.clone();
        if !config_home.is_empty() {
            let config = Path::new(config_home);
            home.repositories = config.join("repositories.yaml");
            home.registry = config.join("registry/config.json");
        }
        self.fetcher.with_home(home)
    }
}

fn of_version(version: &str) -> fetch::Options {
    fetch::Options { version: version.to_owned(), ..fetch::Options::default() }
}

/// Adds what `repo add` has stored for the repository's URL: login and TLS files.
fn with_login(fetcher: &Fetcher, url: &str, options: &mut fetch::Options) -> Result<(), String> {
    let all = Repositories::load(&fetcher.home.repositories).map_err(|e| e.to_string())?.unwrap_or_default();
    let same = |known: &str| known.trim_end_matches('/') == url.trim_end_matches('/');
    if let Some(entry) = all.entries.into_iter().find(|entry| same(&entry.url)) {
        options.tls = entry.tls();
        options.pass_credentials = entry.pass_credentials_all;
        (options.username, options.password) = (entry.username, entry.password);
    }
    Ok(())
}
