//! The values of an encrypted file, in their order.
//!
//! Owns the walk over the values: what is decrypted, and what the message authentication code is over.

use crate::error::HelmfileError;
use chart_compat::go::format_float;
use chart_compat::yaml::tree::{Kind, Node};
use sha2::{Digest as _, Sha256, Sha512};
use windlass_base::hex::hex;

use super::sops_metadata::Metadata;
use super::value_cipher::{ValueCipher, ValueType};
use helmfile_compat::document;
use helmfile_compat::value::{Map, Value};

/// The key of the metadata.
const METADATA: &str = "sops";
/// The documents of a file.
pub(super) struct Tree {
    /// Maps, without metadata.
    pub(super) documents: Vec<Node>,
}

impl Tree {
    /// Reads YAML. Returns the metadata beside it.
    pub(super) fn of_yaml(text: &str) -> Result<(Self, Map), HelmfileError> {
        // The parser's error could quote a value that is not encrypted.
        let documents = document::documents(text)
            .map_err(|_| HelmfileError::Sops("the encrypted file is not YAML".to_owned()))?;
        let mut metadata = None;
        let mut out = Vec::with_capacity(documents.len());
        for mut node in documents {
            if node.is_null() {
                node = Node::map();
            }
            if node.kind != Kind::Map {
                return Err(HelmfileError::Sops("a document of the encrypted file is not a map".to_owned()));
            }
            if let Some(found) = node.remove(METADATA) {
                metadata = metadata.or(Some(found));
            }
            out.push(node);
        }
        match metadata.as_ref().map(Value::from_node) {
            Some(Value::Map(map)) => Ok((Self { documents: out }, map)),
            _ => Err(HelmfileError::Sops(
                "the file is not encrypted by sops; list a plain file under values".to_owned(),
            )),
        }
    }

    /// Reads JSON, which is YAML in flow style.
    pub(super) fn of_json(text: &str) -> Result<(Self, Map), HelmfileError> {
        serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_err(|_| HelmfileError::Sops("the encrypted file is not JSON".to_owned()))?;
        Self::of_yaml(text)
    }

    /// Reads lines `KEY=VALUE`.
    pub(super) fn of_dotenv(text: &str) -> Result<(Self, Map), HelmfileError> {
        let (mut node, mut metadata) = (Node::map(), Map::new());
        for (at, line) in text.split('\n').enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.split_once('=');
            let (key, value) =
                pair.ok_or_else(|| HelmfileError::Sops(format!("line {} is not KEY=VALUE", at + 1)))?;
            let value = value.replace("\\n", "\n");
            match key.strip_prefix("sops_") {
                Some(key) => unflatten(&mut metadata, key, value),
                None => node.push(key, Node::string(&value)),
            }
        }
        if metadata.is_empty() {
            return Err(HelmfileError::Sops(
                "the file is not encrypted by sops; list a plain file under values".to_owned(),
            ));
        }
        Ok((Self { documents: vec![node] }, metadata))
    }

    /// Decrypts the values, and compares the message authentication code.
    pub(super) fn decrypt(&mut self, metadata: &Metadata, key: &[u8]) -> Result<(), HelmfileError> {
        let cipher = ValueCipher::new(key)?;
        let mut walk = Walk { metadata, cipher: &cipher, mac: Sha512::new(), path: Vec::new() };
        // So that a code over the encrypted values alone is never one over all.
        if metadata.mac_only_encrypted {
            walk.mac.update(Sha256::digest(b"sops"));
        }
        for document in &mut self.documents {
            walk.node(document)?;
        }
        let found = hex(&walk.mac.finalize()).to_uppercase();
        let (expected, _) =
            cipher.decrypt(&metadata.mac, &metadata.modified).map_err(|error| error.within("sops.mac"))?;
        if found == expected {
            return Ok(());
        }
        Err(HelmfileError::Sops(
            "the file was changed after it was encrypted: its message authentication code differs".to_owned(),
        ))
    }
}

/// Puts `age__list_0__map_enc` into lists of maps; other names are left as they are.
fn unflatten(metadata: &mut Map, key: &str, value: String) {
    let parts: Vec<&str> = key.split("__").collect();
    let place = match parts.as_slice() {
        [name, list, field] => list.strip_prefix("list_").zip(field.strip_prefix("map_")).map(|p| (*name, p)),
        _ => None,
    };
    let Some((name, (at, field))) = place else {
        metadata.insert(key.to_owned(), Value::String(value));
        return;
    };
    let slot = metadata.entry(name.to_owned()).or_insert_with(|| Value::List(Vec::new()));
    let Value::List(items) = slot else { return };
    // The entries are in order.
    if at.parse() == Ok(items.len()) {
        items.push(Value::Map(Map::new()));
    }
    if let Some(Value::Map(entry)) = at.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
        entry.insert(field.to_owned(), Value::String(value));
    }
}

struct Walk<'w> {
    metadata: &'w Metadata,
    cipher: &'w ValueCipher,
    mac: Sha512,
    /// The keys that lead to the value; items of lists have none.
    path: Vec<String>,
}

impl Walk<'_> {
    fn node(&mut self, node: &mut Node) -> Result<(), HelmfileError> {
        for comment in [&mut node.head, &mut node.line, &mut node.foot] {
            comment.clear();
        }
        match node.kind {
            Kind::Map => {
                for pair in node.content.chunks_exact_mut(2) {
                    let [key, value] = pair else { continue };
                    if key.kind != Kind::Scalar {
                        return Err(HelmfileError::Sops(format!("{}: a key is not a text", self.place())));
                    }
                    for comment in [&mut key.head, &mut key.line, &mut key.foot] {
                        comment.clear();
                    }
                    self.path.push(key.value.clone());
                    self.node(value)?;
                    self.path.pop();
                }
                Ok(())
            }
            Kind::Scalar => self.scalar(node),
            _ => node.content.iter_mut().try_for_each(|item| self.node(item)),
        }
    }

    fn place(&self) -> String {
        self.path.join(".")
    }

    fn scalar(&mut self, node: &mut Node) -> Result<(), HelmfileError> {
        if node.is_null() {
            return Ok(());
        }
        let encrypted = self.metadata.encrypts(&self.path);
        // An empty text stays one.
        if encrypted && !node.value.is_empty() {
            let place = format!("{}:", self.path.join(":"));
            let plain = self.cipher.decrypt(&node.value, &place);
            let (text, kind) =
                plain.map_err(|error| HelmfileError::Sops(format!("{}: {error}", self.place())))?;
            *node = typed(&text, kind).ok_or_else(|| {
                HelmfileError::Sops(format!("{}: the value is not of its type", self.place()))
            })?;
        }
        if encrypted || !self.metadata.mac_only_encrypted {
            let bytes = authenticated(node)
                .ok_or_else(|| HelmfileError::Sops(format!("{}: a number is too large", self.place())))?;
            self.mac.update(bytes);
        }
        Ok(())
    }
}

/// The node of a decrypted value.
fn typed(text: &str, kind: ValueType) -> Option<Node> {
    let plain = |tag: &str, value: String| Node { tag: tag.to_owned(), value, ..Node::default() };
    match kind {
        ValueType::Text => Some(Node::string(text)),
        ValueType::Int => Some(plain("!!int", text.parse::<i64>().ok()?.to_string())),
        ValueType::Float => Some(plain("!!float", format_float(text.parse().ok()?))),
        ValueType::Bool => Some(plain("!!bool", text.to_ascii_lowercase().parse::<bool>().ok()?.to_string())),
        ValueType::Time => Some(plain("!!timestamp", text.to_owned())),
    }
}

/// What the code is over: the value as sops' Go prints it.
fn authenticated(node: &Node) -> Option<Vec<u8>> {
    let text = match Value::from_node(node) {
        Value::String(text) => text,
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Time(time) => time.text(),
        _ => return None,
    };
    Some(text.into_bytes())
}
