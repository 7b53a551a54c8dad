//! Compiles schemas: parses every keyword and resolves every reference.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::decimal::Decimal;
use super::draft::Draft;
use super::external_documents::ExternalDocuments;
use super::json::{Json, Types};
use super::resources::Document;
use super::{check, format, meta, uri};
use crate::go::regexp::{self, Regexp};
use crate::go::strconv;
use crate::memory;

/// A schema's place in its program.
pub(super) type Id = usize;

/// `items` before draft 2020-12.
#[derive(Debug, Default)]
pub(super) enum Items {
    #[default]
    Any,
    Each(Id),
    Tuple(Vec<Id>),
}

/// A keyword for the properties or items that its sibling keywords do not cover.
#[derive(Debug)]
pub(super) enum Rest {
    Allowed(bool),
    Each(Id),
}

/// `dependencies`
#[derive(Debug)]
pub(super) enum Dependency {
    Properties(Vec<String>),
    Schema(Id),
}

/// A bound with its original digits.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) value: Decimal,
    pub(super) literal: Box<str>,
}

/// A pattern with its compiled form.
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) regex: Arc<Regexp>,
}

/// One schema.
#[derive(Default)]
pub(super) struct Schema {
    pub(super) draft: Draft,
    /// URL and pointer, for messages.
    pub(super) location: String,
    /// The resource that it belongs to.
    pub(super) resource: Id,
    /// For a resource: the parts that `$dynamicRef` may refer to, by name.
    pub(super) dynamic_anchors: BTreeMap<String, Id>,
    /// A schema that is `true`, `false` or without keywords.
    pub(super) always: Option<bool>,

    pub(super) reference: Option<Id>,
    pub(super) recursive_reference: Option<Id>,
    pub(super) recursive_anchor: bool,
    pub(super) dynamic_reference: Option<(Id, Option<String>)>,
    pub(super) dynamic_anchor: Option<String>,

    pub(super) types: Types,
    pub(super) constant: Option<Json>,
    pub(super) enumeration: Option<Vec<Json>>,
    pub(super) format: Option<format::Format>,
    pub(super) not: Option<Id>,
    pub(super) all_of: Vec<Id>,
    pub(super) any_of: Vec<Id>,
    pub(super) one_of: Vec<Id>,
    pub(super) condition: Option<Id>,
    pub(super) then: Option<Id>,
    pub(super) otherwise: Option<Id>,

    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) required: Vec<String>,
    pub(super) properties: BTreeMap<String, Id>,
    pub(super) pattern_properties: Vec<(Pattern, Id)>,
    pub(super) additional_properties: Option<Rest>,
    pub(super) property_names: Option<Id>,
    pub(super) dependencies: BTreeMap<String, Dependency>,
    pub(super) dependent_schemas: BTreeMap<String, Id>,
    pub(super) dependent_required: BTreeMap<String, Vec<String>>,
    pub(super) unevaluated_properties: Option<Id>,

    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) items: Items,
    pub(super) additional_items: Option<Rest>,
    pub(super) prefix_items: Vec<Id>,
    pub(super) rest_items: Option<Id>,
    pub(super) contains: Option<Id>,
    pub(super) min_contains: Option<i64>,
    pub(super) max_contains: Option<i64>,
    pub(super) unevaluated_items: Option<Id>,

    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,

    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) exclusive_minimum: Option<Bound>,
    pub(super) exclusive_maximum: Option<Bound>,
    pub(super) multiple_of: Option<Bound>,
}

/// A schema with all schemas that it refers to.
pub(super) struct Program {
    pub(super) schemas: Vec<Schema>,
    /// Unresolved `urn:` references, in order of occurrence.
    pub(super) unresolved: Vec<String>,
}

impl Program {
    /// Compiles a document.
    ///
    /// # Errors
    /// Not a schema, or an unresolved reference; with the text of Helm's validator.
    pub(super) fn new(url: &str, json: &Arc<Json>, external: &ExternalDocuments<'_>) -> Result<Self, String> {
        let mut compiler = Compiler { check: true, ..Compiler::new(external) };
        let document = compiler.add(url, json)?;
        compiler.enqueue(document, String::new());
        compiler.run()?;
        let unresolved = compiler.documents.iter().map(|d| d.url.clone()).filter(|u| u.starts_with("urn:"));
        Ok(Self { unresolved: unresolved.collect(), schemas: compiler.schemas })
    }

    /// Compiles all metaschemas into one program.
    pub(super) fn of_metaschemas() -> (Self, [Id; 5]) {
        // Metaschemas refer only to each other.
        let external = ExternalDocuments::new(&super::nowhere);
        // Their shapes are in draft 7, which asserts formats.
        let mut compiler = Compiler { draft: Some(Draft::D7), ..Compiler::new(&external) };
        let roots = Draft::ALL.map(|draft| {
            // A test compiles every one of them.
            compiler
                .add(draft.url(), &meta::document(draft))
                .map_or(0, |document| compiler.enqueue(document, String::new()))
        });
        let compiled = compiler.run();
        debug_assert!(compiled.is_ok(), "{compiled:?}");
        (Self { schemas: compiler.schemas, unresolved: Vec::new() }, roots)
    }
}

/// The position of a schema: document and pointer.
type Place = (usize, String);

/// The memory limit for the compiled patterns of a schema, in bytes. Helm sets no limit.
pub(super) const MAX_PATTERN_MEMORY: usize = 64 << 20;

struct Compiler<'o> {
    documents: Vec<Document>,
    /// The documents by URL.
    by_url: HashMap<String, usize>,
    schemas: Vec<Schema>,
    known: HashMap<Place, Id>,
    waiting: VecDeque<(Id, Place)>,
    patterns: HashMap<String, Arc<Regexp>>,
    /// Memory of the patterns, in bytes.
    pattern_memory: usize,
    /// Whether documents are checked against their metaschemas.
    check: bool,
    /// The draft of all documents, which overrides their `$schema`.
    draft: Option<Draft>,
    external: &'o ExternalDocuments<'o>,
}

/// The most schemas within one: each takes a kilobyte, and a byte of text less than ten.
fn most_schemas() -> usize {
    memory::of_input() / size_of::<Schema>()
}

fn quote(text: &str) -> String {
    strconv::quote(text.as_bytes())
}

impl<'o> Compiler<'o> {
    fn new(external: &'o ExternalDocuments<'o>) -> Self {
        let (documents, by_url, schemas, known, waiting, patterns) = Default::default();
        Self {
            documents,
            by_url,
            schemas,
            known,
            waiting,
            patterns,
            pattern_memory: 0,
            check: false,
            draft: None,
            external,
        }
    }

    fn add(&mut self, url: &str, json: &Arc<Json>) -> Result<usize, String> {
        let document = Document::new(url, json, self.external)?;
        if !url.starts_with("http://json-schema.org/") && !url.starts_with("https://json-schema.org/") {
            self.check_form(&document, "")?;
        }
        self.by_url.insert(url.to_owned(), self.documents.len());
        self.documents.push(document);
        Ok(self.documents.len() - 1)
    }

    /// Checks a schema against the metaschema of its draft.
    fn check_form(&self, document: &Document, pointer: &str) -> Result<(), String> {
        if !self.check {
            return Ok(());
        }
        let schema = document.lookup(&document.json, pointer)?;
        let (_, resource) = document.resource(pointer);
        check::form(schema, resource.draft, &document.resources).map_err(|broken| {
            let place = quote(&uri::location(&document.url, pointer));
            format!("{place} is not valid against metaschema: {broken}")
        })
    }

    fn enqueue(&mut self, document: usize, pointer: String) -> Id {
        let place = (document, pointer);
        if let Some(id) = self.known.get(&place) {
            return *id;
        }
        // The error reports it.
        if self.is_full() {
            return 0;
        }
        let id = self.schemas.len();
        self.schemas.push(Schema::default());
        self.known.insert(place.clone(), id);
        self.waiting.push_back((id, place));
        id
    }

    fn is_full(&self) -> bool {
        self.schemas.len() > most_schemas()
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some((id, (document, pointer))) = self.waiting.pop_front() {
            if self.documents[document].add_subschema(&pointer, self.external)? {
                self.check_form(&self.documents[document], &pointer)?;
            }
            let json = Arc::clone(&self.documents[document].json);
            let value = self.documents[document].lookup(&json, &pointer)?;
            let schema = self.schema(value, document, &pointer)?;
            self.schemas[id] = schema;
        }
        match self.is_full() {
            false => Ok(()),
            true => Err(format!(
                "it has more than {} schemas within it, all that there is memory for",
                most_schemas()
            )),
        }
    }

    fn schema(&mut self, value: &Json, document: usize, pointer: &str) -> Result<Schema, String> {
        let (at, resource) = self.documents[document].resource(pointer);
        let draft = self.draft.unwrap_or(resource.draft);
        let at = at.to_owned();
        let anchors: Vec<(String, String)> = if draft >= Draft::D2020 && at == pointer {
            resource.dynamic_anchors().map(|(name, place)| (name.clone(), place.clone())).collect()
        } else {
            Vec::new()
        };
        let mut schema = Schema {
            draft,
            location: uri::location(&self.documents[document].url, pointer),
            resource: self.enqueue(document, at),
            ..Schema::default()
        };
        for (name, place) in anchors {
            let id = self.enqueue(document, place);
            schema.dynamic_anchors.insert(name, id);
        }
        match value {
            Json::Bool(b) => schema.always = Some(*b),
            Json::Map(m) if m.is_empty() => schema.always = Some(true),
            Json::Map(_) => {
                Keywords { compiler: self, value, document, pointer, draft }.read(&mut schema)?;
            }
            _ => {}
        }
        Ok(schema)
    }
}

/// Parses the keywords of one schema.
struct Keywords<'c, 'o, 'v> {
    compiler: &'c mut Compiler<'o>,
    value: &'v Json,
    document: usize,
    pointer: &'c str,
    draft: Draft,
}

impl<'v> Keywords<'_, '_, 'v> {
    fn text(&self, keyword: &str) -> Option<&'v str> {
        self.value.get(keyword).and_then(Json::as_str)
    }

    fn flag(&self, keyword: &str) -> bool {
        self.value.get(keyword).and_then(Json::as_bool).unwrap_or_default()
    }

    fn list(&self, keyword: &str) -> Option<&'v [Json]> {
        self.value.get(keyword).and_then(Json::as_list)
    }

    fn count(&self, keyword: &str) -> Option<i64> {
        self.value.get(keyword).and_then(Json::number).and_then(|n| n.as_count())
    }

    fn bound(&self, keyword: &str) -> Option<Bound> {
        match self.value.get(keyword) {
            Some(Json::Number(literal)) => {
                Some(Bound { value: Decimal::parse(literal)?, literal: literal.clone() })
            }
            _ => None,
        }
    }

    fn place(&self, keyword: &str) -> String {
        uri::append(self.pointer, keyword)
    }

    /// The schema that is a keyword's value.
    fn one(&mut self, keyword: &str) -> Option<Id> {
        self.value.get(keyword)?;
        let place = self.place(keyword);
        Some(self.compiler.enqueue(self.document, place))
    }

    /// The schemas of a list.
    fn many(&mut self, keyword: &str) -> Vec<Id> {
        let place = self.place(keyword);
        let items = self.list(keyword).unwrap_or_default();
        (0..items.len()).map(|i| self.compiler.enqueue(self.document, uri::append_index(&place, i))).collect()
    }

    /// The schemas of a map.
    fn named(&mut self, keyword: &str) -> BTreeMap<String, Id> {
        let place = self.place(keyword);
        let Some(entries) = self.value.get(keyword).and_then(Json::as_map) else { return BTreeMap::new() };
        entries
            .keys()
            .map(|k| (k.clone(), self.compiler.enqueue(self.document, uri::append(&place, k))))
            .collect()
    }

    fn rest(&mut self, keyword: &str) -> Option<Rest> {
        match self.value.get(keyword)? {
            Json::Bool(b) => Some(Rest::Allowed(*b)),
            _ => self.one(keyword).map(Rest::Each),
        }
    }

    fn regex(&mut self, keyword: &str, pattern: &str) -> Result<Pattern, String> {
        if let Some(regex) = self.compiler.patterns.get(pattern) {
            return Ok(Pattern { text: pattern.to_owned(), regex: Arc::clone(regex) });
        }
        match regexp::compile(pattern.as_bytes()) {
            Ok(regex) => {
                self.compiler.pattern_memory += regex.memory();
                if self.compiler.pattern_memory > MAX_PATTERN_MEMORY {
                    let mib = MAX_PATTERN_MEMORY >> 20;
                    return Err(format!(
                        "the patterns of the schema take more than {mib} MiB: simplify them"
                    ));
                }
                self.compiler.patterns.insert(pattern.to_owned(), Arc::clone(&regex));
                Ok(Pattern { text: pattern.to_owned(), regex })
            }
            Err(e) => {
                let url = &self.compiler.documents[self.document].url;
                let place = quote(&uri::location(url, &self.place(keyword)));
                Err(format!("invalid regex {} at {place}: {e}", quote(pattern)))
            }
        }
    }

    /// Resolves a reference to a schema.
    fn follow(&mut self, keyword: &str) -> Result<Option<Id>, String> {
        let Some(reference) = self.text(keyword) else { return Ok(None) };
        let (url, fragment) = uri::split(reference)?;
        let own = &self.compiler.documents[self.document];
        let (_, resource) = own.resource(self.pointer);
        let url = uri::join(&resource.id, url)?;
        if let Some(pointer) = own.resolve(&url, &fragment)? {
            return Ok(Some(self.compiler.enqueue(self.document, pointer)));
        }
        let document = match self.compiler.by_url.get(&url).copied() {
            Some(document) => document,
            None => {
                let json = self.compiler.external.load(&url)?;
                self.compiler.add(&url, &json)?
            }
        };
        let pointer = self.compiler.documents[document].resolve(&url, &fragment)?;
        Ok(Some(self.compiler.enqueue(document, pointer.unwrap_or_default())))
    }

    /// Parses all keywords in the order of Helm's validator, which reports the first of several errors.
    fn read(&mut self, schema: &mut Schema) -> Result<(), String> {
        schema.reference = self.follow("$ref")?;
        if schema.reference.is_none() || !self.draft.ref_stands_alone() {
            self.since_draft4(schema)?;
        }
        // Parsed even beside a `$ref`, which overrides all other keywords.
        if self.draft >= Draft::D6 {
            schema.contains = self.one("contains");
            schema.property_names = self.one("propertyNames");
            schema.constant = self.value.get("const").cloned();
        }
        if self.draft >= Draft::D7 {
            self.condition(schema);
        }
        if self.draft >= Draft::D2019 {
            self.since_draft2019(schema)?;
        }
        if self.draft >= Draft::D2020 {
            self.since_draft2020(schema)?;
        }
        Ok(())
    }

    fn since_draft4(&mut self, schema: &mut Schema) -> Result<(), String> {
        schema.all_of = self.many("allOf");
        schema.any_of = self.many("anyOf");
        schema.one_of = self.many("oneOf");
        schema.not = self.one("not");
        if self.draft >= Draft::D2020 {
            // They have another meaning there.
        } else if self.list("items").is_some() {
            schema.items = Items::Tuple(self.many("items"));
            schema.additional_items = self.rest("additionalItems");
        } else if let Some(id) = self.one("items") {
            schema.items = Items::Each(id);
        }
        schema.properties = self.named("properties");
        for (pattern, id) in self.named("patternProperties") {
            schema.pattern_properties.push((self.regex("patternProperties", &pattern)?, id));
        }
        schema.additional_properties = self.rest("additionalProperties");
        self.dependencies(schema);
        self.scalars(schema)?;
        // In later drafts a format is only an annotation.
        if self.draft < Draft::D2019 {
            schema.format = self.text("format").and_then(format::Format::named);
        }
        Ok(())
    }

    fn dependencies(&mut self, schema: &mut Schema) {
        let place = self.place("dependencies");
        for (name, value) in self.value.get("dependencies").and_then(Json::as_map).into_iter().flatten() {
            let dependency = match value.as_list() {
                Some(names) => Dependency::Properties(strings(names)),
                None => Dependency::Schema(self.compiler.enqueue(self.document, uri::append(&place, name))),
            };
            schema.dependencies.insert(name.clone(), dependency);
        }
    }

    fn scalars(&mut self, schema: &mut Schema) -> Result<(), String> {
        schema.types = match self.value.get("type") {
            Some(Json::String(name)) => Types::named(name),
            Some(Json::List(names)) => names
                .iter()
                .filter_map(Json::as_str)
                .fold(Types::default(), |all, name| all.with(Types::named(name))),
            _ => Types::default(),
        };
        schema.enumeration = self.list("enum").map(<[Json]>::to_vec);
        schema.multiple_of = self.bound("multipleOf");
        // In draft 4 the exclusive bounds are flags of the others.
        (schema.maximum, schema.exclusive_maximum) = match self.flag("exclusiveMaximum") {
            true => (None, self.bound("maximum")),
            false => (self.bound("maximum"), self.bound("exclusiveMaximum")),
        };
        (schema.minimum, schema.exclusive_minimum) = match self.flag("exclusiveMinimum") {
            true => (None, self.bound("minimum")),
            false => (self.bound("minimum"), self.bound("exclusiveMinimum")),
        };
        schema.min_length = self.count("minLength");
        schema.max_length = self.count("maxLength");
        if let Some(pattern) = self.text("pattern") {
            schema.pattern = Some(self.regex("pattern", pattern)?);
        }
        schema.min_items = self.count("minItems");
        schema.max_items = self.count("maxItems");
        schema.unique_items = self.flag("uniqueItems");
        schema.max_properties = self.count("maxProperties");
        schema.min_properties = self.count("minProperties");
        schema.required = strings(self.list("required").unwrap_or_default());
        Ok(())
    }

    fn condition(&mut self, schema: &mut Schema) {
        schema.condition = self.one("if");
        if schema.condition.is_some() {
            let decided = self.value.get("if").and_then(Json::as_bool);
            if decided != Some(false) {
                schema.then = self.one("then");
            }
            if decided != Some(true) {
                schema.otherwise = self.one("else");
            }
        }
    }

    fn since_draft2019(&mut self, schema: &mut Schema) -> Result<(), String> {
        schema.recursive_reference = self.follow("$recursiveRef")?;
        schema.recursive_anchor = self.flag("$recursiveAnchor");
        if schema.contains.is_some() {
            schema.min_contains = self.count("minContains");
            schema.max_contains = self.count("maxContains");
        }
        let required = self.value.get("dependentRequired").and_then(Json::as_map);
        for (name, names) in required.into_iter().flatten() {
            let names = strings(names.as_list().unwrap_or_default());
            schema.dependent_required.insert(name.clone(), names);
        }
        schema.dependent_schemas = self.named("dependentSchemas");
        schema.unevaluated_items = self.one("unevaluatedItems");
        schema.unevaluated_properties = self.one("unevaluatedProperties");
        Ok(())
    }

    fn since_draft2020(&mut self, schema: &mut Schema) -> Result<(), String> {
        if let Some(target) = self.follow("$dynamicRef")? {
            let (_, fragment) = uri::split(self.text("$dynamicRef").unwrap_or_default())?;
            let anchor = Some(fragment).filter(|f| !f.is_empty() && !f.starts_with('/'));
            schema.dynamic_reference = Some((target, anchor));
        }
        schema.dynamic_anchor = self.text("$dynamicAnchor").map(str::to_owned);
        schema.prefix_items = self.many("prefixItems");
        schema.rest_items = self.one("items");
        Ok(())
    }
}

fn strings(list: &[Json]) -> Vec<String> {
    list.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}
