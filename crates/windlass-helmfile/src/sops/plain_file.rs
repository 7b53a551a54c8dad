//! A decrypted file in its format, as sops prints it.

use chart_compat::json::Writer as JsonWriter;
use chart_compat::yaml::tree::{Kind, Node, Writer};

use super::Format;
use super::encrypted_tree::Tree;
use crate::error::HelmfileError;
use helmfile_compat::value::Value;

/// Writes the documents of a file.
pub(super) fn write(tree: &Tree, format: Format) -> Result<Vec<u8>, HelmfileError> {
    let text = match format {
        Format::Yaml => {
            let mut writer = Writer::new();
            tree.documents.iter().for_each(|document| writer.document(document));
            writer.finish()
        }
        Format::Json => {
            let mut text = String::new();
            let mut writer = JsonWriter::new(&mut text).indented();
            tree.documents.iter().try_for_each(|document| json(&mut writer, document))?;
            text.lines().map(tabs).collect()
        }
        Format::Dotenv => {
            let mut text = String::new();
            for pair in tree.documents.iter().flat_map(|document| document.content.chunks_exact(2)) {
                let [key, value] = pair else { continue };
                text.extend([key.value.as_str(), "=", &value.value.replace('\n', "\\n"), "\n"]);
            }
            text
        }
        Format::Binary => {
            let data = tree.documents.first().and_then(|document| document.get("data"));
            data.map(|data| data.value.clone())
                .ok_or_else(|| HelmfileError::Sops("the encrypted file has no key data".to_owned()))?
        }
        Format::Ini => return Err(HelmfileError::Sops("INI files are not supported".to_owned())),
    };
    Ok(text.into_bytes())
}

/// A line of JSON, indented by tabs in place of two spaces.
fn tabs(line: &str) -> String {
    let rest = line.trim_start_matches(' ');
    format!("{}{rest}\n", "\t".repeat((line.len() - rest.len()) / 2))
}

fn json(writer: &mut JsonWriter<'_>, node: &Node) -> Result<(), HelmfileError> {
    match node.kind {
        Kind::Map => {
            writer.begin_map();
            for pair in node.content.chunks_exact(2) {
                let [key, value] = pair else { continue };
                writer.key(&key.value);
                json(writer, value)?;
            }
            writer.end_map();
        }
        Kind::Scalar => match Value::from_node(node) {
            Value::Bool(value) => writer.bool(value),
            Value::Int(number) => writer.int(number),
            Value::Float(number) => {
                writer.float(number).map_err(|_| HelmfileError::Sops("a number is not finite".to_owned()))?;
            }
            Value::Null => writer.null(),
            other => writer.string(&other.go_text()),
        },
        _ => {
            writer.begin_list();
            node.content.iter().try_for_each(|item| json(writer, item))?;
            writer.end_list();
        }
    }
    Ok(())
}
