//! `windlass search hub`: finds charts on Artifact Hub, or on another server with Monocular's search.

use percent_encoding::utf8_percent_encode;
use serde::{Deserialize, Serialize};
use windlass_base::bounded_json;

use super::fetch;
use super::flags::Globals;
use super::output::{Format, structured, table};
use super::search::cut;
use super::{Failure, block_on, print};
use windlass_fetch::http::{Request, TIMEOUT, Tls};
use windlass_fetch::location::{Location, SEGMENT};

const SEARCH: &str = "api/chartsvc/v1/charts/search";
/// The largest answer, in bytes.
const MAX_ANSWER: u64 = 32 << 20;

/// Flags of `search hub`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Keywords
    words: Vec<String>,
    /// Hub instance to query for charts
    #[arg(long, default_value = "https://hub.helm.sh")]
    endpoint: String,
    /// Maximum column width for output table
    #[arg(long, default_value_t = 50)]
    max_col_width: usize,
    /// Print charts repository URL
    #[arg(long)]
    list_repo_url: bool,
    /// Search fails if no results are found
    #[arg(long)]
    fail_on_no_result: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    data: Vec<Hit>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Hit {
    id: String,
    artifact_hub: ArtifactHub,
    attributes: Attributes,
    relationships: Relationships,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ArtifactHub {
    package_url: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Attributes {
    repo: Repository,
    description: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Relationships {
    latest_chart_version: Latest,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Latest {
    data: Version,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Version {
    version: String,
    app_version: String,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(default)]
struct Repository {
    url: String,
    name: String,
}

/// A chart, in the order of Helm's fields.
#[derive(Serialize)]
struct Found {
    url: String,
    version: String,
    app_version: String,
    description: String,
    repository: Repository,
}

impl Found {
    fn of(hit: Hit, endpoint: &str) -> Self {
        let url = match hit.artifact_hub.package_url {
            url if url.is_empty() => format!("{endpoint}/charts/{}", hit.id),
            url => url,
        };
        let Version { version, app_version } = hit.relationships.latest_chart_version.data;
        let Attributes { repo: repository, description } = hit.attributes;
        Self { url, version, app_version, description, repository }
    }
}

/// The address of a search.
fn address(endpoint: &str, words: &[String]) -> Result<Location, Failure> {
    let base = endpoint.trim_end_matches('/');
    let failed = |reason: &str| format!("unable to create connection to {endpoint:?}: {reason}");
    let query = utf8_percent_encode(&words.join(" "), SEGMENT).to_string().replace("%20", "+");
    if !Location::is_absolute(endpoint) {
        return Err(failed("no hostname provided"));
    }
    Location::parse(&format!("{base}/{SEARCH}?q={query}")).map_err(|e| failed(&e.to_string()))
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let url = address(&args.endpoint, &args.words)?;
    let tls = Tls::default();
    let http = fetch::http(globals, TIMEOUT);
    let failed = |reason: &dyn std::fmt::Display| {
        let text = format!("unable to perform search against {:?}", args.endpoint);
        if globals.debug { format!("{text}: {reason}") } else { text }
    };
    let answer = block_on(http.fetch(Request::get(url, &tls, MAX_ANSWER)))?.map_err(|e| failed(&e))?;
    let answer: Answer = bounded_json::from_slice(&answer).map_err(|e| failed(&e))?;
    let found: Vec<Found> = answer.data.into_iter().map(|hit| Found::of(hit, &args.endpoint)).collect();
    if found.is_empty() && args.fail_on_no_result {
        return Err("no results found".to_owned());
    }
    print(text(args, &found)?.as_bytes())
}

fn text(args: &Args, found: &[Found]) -> Result<String, Failure> {
    if args.output != Format::Table {
        return structured(&found, args.output);
    }
    if found.is_empty() {
        return Ok("No results found\n".to_owned());
    }
    let row = |cells: [&str; 5]| {
        let shown = if args.list_repo_url { &cells[..] } else { &cells[..4] };
        shown.iter().map(|cell| cut(cell, args.max_col_width)).collect()
    };
    let mut rows = vec![row(["URL", "CHART VERSION", "APP VERSION", "DESCRIPTION", "REPO URL"])];
    rows.extend(
        found.iter().map(|f| row([&f.url, &f.version, &f.app_version, &f.description, &f.repository.url])),
    );
    Ok(table(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_asked_for_below_the_endpoint() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (endpoint, query, wanted) in [
            ("https://hub.example", "a b", "https://hub.example/api/chartsvc/v1/charts/search?q=a+b"),
            ("http://h:1/x/", "a&b=ü~", "http://h:1/x/api/chartsvc/v1/charts/search?q=a%26b%3D%C3%BC~"),
        ] {
            assert_eq!(address(endpoint, &words(query)).unwrap().to_string(), wanted);
        }
        assert!(address("hub.example", &[]).unwrap_err().ends_with("no hostname provided"));
    }

    #[test]
    fn a_hub_tells_the_page_of_its_charts() {
        let answer = r#"{"data": [
            {"id": "a/b", "attributes": {"repo": {"name": "a", "url": "https://r"}, "description": "d"},
             "relationships": {"latestChartVersion": {"data": {"version": "1.0.0", "app_version": "2"}}}},
            {"id": "c/d", "artifactHub": {"packageUrl": "https://hub/packages/d"}}]}"#;
        let answer: Answer = serde_json::from_str(answer).unwrap();
        let found: Vec<Found> = answer.data.into_iter().map(|hit| Found::of(hit, "https://e")).collect();
        let urls: Vec<&str> = found.iter().map(|f| f.url.as_str()).collect();
        assert_eq!(urls, ["https://e/charts/a/b", "https://hub/packages/d"]);
        let json = serde_json::to_string(&found[0]).unwrap();
        assert_eq!(
            json,
            r#"{"url":"https://e/charts/a/b","version":"1.0.0","app_version":"2","description":"d","repository":{"url":"https://r","name":"a"}}"#
        );
    }
}
