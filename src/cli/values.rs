//! User values from flags, merged in Helm's order of sources, independent of their order on the command line (`values.Options`).

use chart_compat::chart::{merge_maps, read_values};
use chart_compat::data::{Data, Map};
use chart_compat::explain::{Layers, file_report};
use chart_compat::json;
use chart_compat::profile::Profile;
use chart_compat::values::strvals;

use super::failure::Explained;
use super::flags::{Globals, Values};
use super::{block_on, fetch};
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_fetch::http::{Request, TIMEOUT, Tls};
use windlass_fetch::location::Location;
use windlass_render::recorded_values::fill;

/// The maximal size of a values file, in bytes.
const MAX_FILE: u64 = 100 * 1024 * 1024;

/// The content of a file, of standard input (`-`) or of a URL (`readFile`).
fn read(globals: &Globals, path: &str) -> Result<Vec<u8>, String> {
    let scheme = path.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if matches!(scheme.as_deref(), Some("http" | "https")) {
        let url = Location::parse(path).map_err(|e| e.to_string())?;
        let (http, tls) = (fetch::http(globals, TIMEOUT), Tls::default());
        let bytes = block_on(http.fetch(Request::get(url, &tls, MAX_FILE)))?;
        return Ok(bytes.map_err(|e| e.to_string())?.into());
    }
    let result = if path.trim() == "-" {
        bounded_read::read_to_end(std::io::stdin().lock(), MAX_FILE).map_err(|e| ("read", e))
    } else {
        let file = std::fs::File::open(path).map_err(|e| ("open", e));
        file.and_then(|file| bounded_read::read_to_end(file, MAX_FILE).map_err(|e| ("read", e)))
    };
    result.map_err(|(step, e)| format!("{step} {path}: {}", of_the_system(&e)))
}

/// The user's values, and the sources they were merged from.
#[derive(Clone, Debug, Default)]
pub(super) struct User {
    pub(super) values: Map,
    sources: Vec<Source>,
    profile: Profile,
}

/// A source of values, with its content.
#[derive(Clone, Debug)]
struct Source {
    /// The name of a file or flag.
    name: String,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    File(Vec<u8>),
    Set(String),
    SetString(String),
    SetJson(String),
    /// The argument, and the content of the files it names.
    SetFile(String, Vec<(String, Data)>),
    SetLiteral(String),
    Given(Map),
}

impl Source {
    /// Merges this source into `values`, with Helm's errors.
    fn apply(&self, values: &mut Map, profile: Profile) -> Result<(), Explained> {
        match &self.content {
            Content::File(text) => match read_values(text, profile) {
                Ok(map) => merge_maps(values, map),
                Err(e) => {
                    let report = e.line().map(|line| file_report(&self.name, text, line, &e.problem()));
                    return Err(Explained { text: format!("failed to parse {}: {e}", self.name), report });
                }
            },
            Content::SetJson(text) if profile == Profile::Helm4 && text.trim_start().starts_with('{') => {
                match json::from_slice(text.as_bytes()) {
                    Ok(Data::Map(map)) => merge_maps(values, map),
                    // Helm's error contains no further text.
                    Ok(_) | Err(_) => {
                        return Err(format!("failed parsing --set-json data JSON: {text}").into());
                    }
                }
            }
            Content::SetJson(text) => strvals::parse_json(values, text)
                .map_err(|_| format!("failed parsing --set-json data {text}"))?,
            Content::Set(text) => {
                strvals::parse_into(values, text).map_err(|e| format!("failed parsing --set data: {e}"))?;
            }
            Content::SetString(text) => strvals::parse_into_string(values, text)
                .map_err(|e| format!("failed parsing --set-string data: {e}"))?,
            Content::SetFile(text, files) => {
                let mut load = |path: &str| -> Result<Data, String> {
                    match files.iter().find(|f| f.0 == path) {
                        Some((_, data)) => Ok(data.clone()),
                        None => Err(format!("open {path}: it was not read")),
                    }
                };
                strvals::parse_file(values, text, &mut load)
                    .map_err(|e| format!("failed parsing --set-file data: {e}"))?;
            }
            Content::SetLiteral(text) => strvals::parse_literal(values, text)
                .map_err(|e| format!("failed parsing --set-literal data: {e}"))?,
            Content::Given(map) => merge_maps(values, map.clone()),
        }
        Ok(())
    }
}

impl User {
    /// Values of another origin, with a name for explanations.
    pub(super) fn given(name: &str, values: Map) -> Self {
        let source = Source { name: name.to_owned(), content: Content::Given(values.clone()) };
        Self { values, sources: vec![source], profile: Profile::default() }
    }

    /// These values, merged over older ones of another origin.
    pub(super) fn over(mut self, name: &str, old: Map) -> Self {
        self.sources.insert(0, Source { name: name.to_owned(), content: Content::Given(old.clone()) });
        fill(&mut self.values, old);
        self
    }

    fn add(&mut self, name: &str, content: Content) -> Result<(), Explained> {
        let source = Source { name: name.to_owned(), content };
        source.apply(&mut self.values, self.profile)?;
        self.sources.push(source);
        Ok(())
    }

    /// Like [`User::add`], for a flag whose files are read during the merge.
    fn add_files(&mut self, globals: &Globals, text: &str) -> Result<(), Explained> {
        let mut files = Vec::new();
        let mut load = |path: &str| -> Result<Data, String> {
            let data = Data::String(String::from_utf8_lossy(&read(globals, path)?).into_owned());
            files.push((path.to_owned(), data.clone()));
            Ok(data)
        };
        strvals::parse_file(&mut self.values, text, &mut load)
            .map_err(|e| format!("failed parsing --set-file data: {e}"))?;
        let content = Content::SetFile(text.to_owned(), files);
        self.sources.push(Source { name: "--set-file".to_owned(), content });
        Ok(())
    }

    /// The sources as layers, for `values explain`.
    pub(super) fn layers(&self) -> Layers {
        let mut layers = Layers::default();
        for source in &self.sources {
            let text = match &source.content {
                Content::File(text) => Some(&text[..]),
                _ => None,
            };
            // The whole merge succeeded before. A layer that fails alone is skipped.
            drop(layers.add(&source.name, text.is_some(), text, |values| source.apply(values, self.profile)));
        }
        layers
    }
}

/// The values of the flags, merged.
pub(super) fn merge(globals: &Globals, flags: &Values, profile: Profile) -> Result<User, Explained> {
    let mut user = User { profile, ..User::default() };
    for path in &flags.files {
        user.add(path, Content::File(read(globals, path)?))?;
    }
    for text in &flags.set_json {
        user.add("--set-json", Content::SetJson(text.clone()))?;
    }
    for text in &flags.set {
        user.add("--set", Content::Set(text.clone()))?;
    }
    for text in &flags.set_string {
        user.add("--set-string", Content::SetString(text.clone()))?;
    }
    for text in &flags.set_file {
        user.add_files(globals, text)?;
    }
    for text in &flags.set_literal {
        user.add("--set-literal", Content::SetLiteral(text.clone()))?;
    }
    Ok(user)
}
