//! `windlass create`: a new chart, from a scaffold of ours or from a starter.

use std::path::{Path, PathBuf};

use chart_compat::yaml;

use super::flags::Globals;
use super::{Failure, environment, print};
use windlass_base::causes::of_the_system;
use windlass_fetch::absolute;
use windlass_fetch::chart_package::{Times, save};

/// What stands for the chart's name in a scaffold.
const PLACEHOLDER: &str = "<CHARTNAME>";
/// The longest name of a chart, in bytes.
const LONGEST_NAME: usize = 250;

/// The files of a new chart besides `Chart.yaml`.
const SCAFFOLD: [(&str, &str); 9] = [
    (".helmignore", include_str!("scaffold/helmignore")),
    ("values.yaml", include_str!("scaffold/values.yaml")),
    ("templates/_helpers.tpl", include_str!("scaffold/templates/_helpers.tpl")),
    ("templates/deployment.yaml", include_str!("scaffold/templates/deployment.yaml")),
    ("templates/service.yaml", include_str!("scaffold/templates/service.yaml")),
    ("templates/serviceaccount.yaml", include_str!("scaffold/templates/serviceaccount.yaml")),
    ("templates/ingress.yaml", include_str!("scaffold/templates/ingress.yaml")),
    ("templates/NOTES.txt", include_str!("scaffold/templates/NOTES.txt")),
    ("templates/tests/connection.yaml", include_str!("scaffold/templates/tests/connection.yaml")),
];

/// Flags of `create`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The directory of the new chart; its last part is the name
    name: String,
    /// The name or absolute path to Helm starter scaffold
    #[arg(short = 'p', long, default_value = "", hide_default_value = true)]
    starter: String,
    /// Chart API version to use (v2 or v3)
    #[arg(long, default_value = "v2", hide = true)]
    chart_api_version: String,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    print(format!("Creating {}\n", args.name).as_bytes())?;
    let version = match args.chart_api_version.as_str() {
        "" | "v2" => "v2",
        "v3" => {
            environment::feature("HELM_EXPERIMENTAL_CHART_V3")?;
            "v3"
        }
        other => return Err(format!("unsupported chart API version: {other} (supported: v2, v3)")),
    };
    let target = absolute(Path::new(&args.name));
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    check_name(&name)?;
    if !args.starter.is_empty() {
        return from_starter(globals, &args.starter, &name, version, &target);
    }
    let parent = target.parent().unwrap_or(&target);
    if !parent.is_dir() {
        return Err(format!("stat {}: no such file or directory", parent.display()));
    }
    write(&target, "Chart.yaml", chart_file(&name, version).as_bytes())?;
    for (path, text) in SCAFFOLD {
        write(&target, path, text.replace(PLACEHOLDER, &name).as_bytes())?;
    }
    std::fs::create_dir_all(target.join("charts")).map_err(|e| failed(&target.join("charts"), &e))
}

/// Refuses a name of a chart that is none in Helm, or that a path or a text could take for something else.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(format!("chart name must be between 1 and {LONGEST_NAME} characters"));
    }
    if matches!(name, "." | "..") {
        return Err(format!("chart name {name:?} is a directory's: choose another one"));
    }
    match name.chars().all(good) {
        true => Ok(()),
        false => Err("chart name must match the regular expression \"^[a-zA-Z0-9._-]+$\"".to_owned()),
    }
}

fn chart_file(name: &str, version: &str) -> String {
    format!(
        "apiVersion: {version}\nname: {name:?}\ndescription: A Helm chart for Kubernetes\ntype: application\n\
         # The version of the chart: it changes with each change of the chart.\nversion: 0.1.0\n\
         # The version of the application, and the tag of its image.\nappVersion: stable\n"
    )
}

/// A copy of a chart, with the new name in its templates and values.
fn from_starter(
    globals: &Globals,
    starter: &str,
    name: &str,
    version: &str,
    target: &Path,
) -> Result<(), Failure> {
    let from = globals.home().data.join("starters").join(starter);
    let loaded = windlass_fetch::load(&from, globals.profile())
        .map_err(|e| format!("could not load {}: {e}", from.display()))?;
    let mut chart = loaded.chart;
    chart.metadata = chart_compat::chart::Metadata {
        name: name.to_owned(),
        description: "A Helm chart for Kubernetes".to_owned(),
        kind: "application".to_owned(),
        version: "0.1.0".to_owned(),
        app_version: "0.1.0".to_owned(),
        api_version: version.to_owned(),
        ..chart_compat::chart::Metadata::default()
    };
    let named = |data: &[u8]| String::from_utf8_lossy(data).replace(PLACEHOLDER, name).into_bytes();
    let metadata = yaml::to_string(&chart.metadata.data()).map_err(|e| e.to_string())?;
    write(target, "Chart.yaml", metadata.as_bytes())?;
    if let Some(values) = &chart.values_text {
        write(target, "values.yaml", &named(values))?;
    }
    if let Some(schema) = &chart.schema {
        write(target, "values.schema.json", schema)?;
    }
    for file in &chart.templates {
        write(target, &file.name, &named(&file.data))?;
    }
    for file in &chart.files {
        write(target, &file.name, &file.data)?;
    }
    for subchart in &chart.dependencies {
        let folder = target.join("charts");
        std::fs::create_dir_all(&folder).map_err(|e| failed(&folder, &e))?;
        save(subchart, &Times::none(), &folder).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    format!("{}: {}", path.display(), of_the_system(error))
}

/// Writes a file of the chart, and tells if there was one.
pub(super) fn write(target: &Path, name: &str, data: &[u8]) -> Result<(), Failure> {
    let path: PathBuf = target.join(name);
    if path.exists() {
        print(
            format!("WARNING: File {:?} already exists. Overwriting.\n", path.display().to_string())
                .as_bytes(),
        )?;
    }
    let folder = path.parent().unwrap_or(target);
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
    std::fs::write(&path, data).map_err(|e| failed(&path, &e))
}
