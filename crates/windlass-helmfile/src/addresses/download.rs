//! Downloads of single files and archives, by HTTP and from buckets.
//!
//! Owns what `archive` and `checksum` mean, and the bounds of a download. A login goes to the origin of the address alone. Neither
//! `~/.netrc` is read nor `X-Terraform-Get` followed.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use chart_compat::go::parse_bool;
use percent_encoding::percent_decode_str;

use super::address::Address;
use super::object_address::ObjectAddress;
use crate::error::HelmfileError;
use windlass_fetch::archive::{ArchiveKind, unpack};
use windlass_fetch::byte_budget::ByteBudget;
use windlass_fetch::file_checksum::Checksum;
use windlass_fetch::http::{Credentials, Http, Request, Tls};
use windlass_fetch::location::Location;

/// The size limit of a download, in bytes.
const MAX_DOWNLOAD: u64 = 256 << 20;
/// The size limit of a list of checksums, in bytes.
const MAX_CHECKSUMS: u64 = 1 << 20;

/// Downloads what an address names into a directory, and returns the path of its file. `budget`: what all downloads of a run may have,
/// packed and unpacked.
///
/// # Errors
/// The server refuses, the checksum differs, or the archive cannot be unpacked.
pub async fn fetch(
    http: &Http,
    address: &Address,
    directory: &Path,
    budget: &ByteBudget,
) -> Result<String, HelmfileError> {
    let object = match (address.getter.as_deref(), address.location.scheme.as_str()) {
        (Some("s3" | "gcs"), _) | (None, "s3") => Some(ObjectAddress::of(address)?),
        _ => None,
    };
    let url = address.whole();
    // An archive by HTTP is what is before the file, whether an @ or a slash separates them.
    let source =
        if matches!(address.getter.as_deref(), Some("http" | "https")) { &address.location } else { &url };
    let name = match &object {
        Some(object) => object.file_name().to_owned(),
        None => percent_decode_str(source.file_name()).decode_utf8_lossy().into_owned(),
    };
    let kind = archive_kind(address, &name)?;
    let limit = budget.at_most(MAX_DOWNLOAD);
    let bytes = match &object {
        Some(object) => object.download(address, http, limit).await?,
        None => by_http(http, address, source, limit).await?,
    };
    budget.take(bytes.len() as u64).map_err(HelmfileError::cause)?;
    if let Some(text) = address.parameter("checksum") {
        checksum(http, &text, &name).await?.verify(&bytes)?;
    }
    match kind {
        Some(kind) => {
            unpack(&bytes, kind, directory, budget)?;
            address.below(directory)
        }
        None => {
            let path = single(directory, &name)?;
            std::fs::write(&path, bytes)
                .map_err(|error| HelmfileError::Address(format!("{}: {error}", path.display())))?;
            Ok(path.to_string_lossy().into_owned())
        }
    }
}

/// The kind of archive that a getter unpacks; `None` for a single file.
fn archive_kind(address: &Address, name: &str) -> Result<Option<ArchiveKind>, HelmfileError> {
    let by_http = matches!(address.getter.as_deref(), Some("http" | "https"));
    let kind = match (address.getter.as_deref(), address.parameter("archive").as_deref()) {
        // Without a getter there is only the one file.
        (None, _) => None,
        (_, Some(kind)) if parse_bool(kind) == Some(false) => None,
        (_, Some(kind)) => Some(ArchiveKind::parse(kind)?),
        (_, None) => ArchiveKind::of_file(name)?,
    };
    match kind {
        None if by_http => Err(HelmfileError::Address(
            "it is not an archive; fetch a single file by https:// without a getter".to_owned(),
        )),
        None if address.selects => {
            Err(HelmfileError::Address("it is a single file; leave out what follows the @".to_owned()))
        }
        kind => Ok(kind),
    }
}

/// The place of a single file.
fn single(directory: &Path, name: &str) -> Result<PathBuf, HelmfileError> {
    if name.is_empty() || name.contains(['/', '\\', '\0']) || matches!(name, "." | "..") {
        return Err(HelmfileError::Address(format!("{name:?} is not a name of a file")));
    }
    Ok(directory.join(name))
}

async fn by_http(http: &Http, address: &Address, url: &Location, limit: u64) -> Result<Bytes, HelmfileError> {
    if address.parameter("filename").is_some() && address.getter.is_some() {
        return Err(HelmfileError::Address(
            "the parameter \"filename\" is not supported; name the file after the @".to_owned(),
        ));
    }
    let own: &[&str] =
        if address.getter.is_some() { &["cache", "archive", "checksum"] } else { &["cache", "checksum"] };
    let query = address.query_without(own);
    let confined = query.is_some();
    let url = query.map_or_else(|| url.clone(), |query| url.with_query(query));
    let tls = Tls::default();
    let login = url.user();
    let credentials = login.map(|(user, password)| Credentials::Basic(user.to_owned(), password.clone()));
    let request = Request { credentials, confined, ..Request::get(url.clone(), &tls, limit) };
    http.fetch(request).await.map_err(HelmfileError::cause)
}

/// The checksum of a parameter: itself, or `file:URL` of a list that has the file.
async fn checksum(http: &Http, text: &str, name: &str) -> Result<Checksum, HelmfileError> {
    let Some(url) = text.strip_prefix("file:") else { return Ok(Checksum::parse(text)?) };
    let location =
        Location::parse(url).map_err(|_| HelmfileError::Address("checksum=file: takes a URL".to_owned()))?;
    if !matches!(location.scheme.as_str(), "http" | "https") {
        return Err(HelmfileError::Address("checksum=file: takes a URL of http or https".to_owned()));
    }
    let tls = Tls::default();
    let confined = location.query.is_some();
    let request = Request { confined, ..Request::get(location.clone(), &tls, MAX_CHECKSUMS) };
    let list = http.fetch(request).await.map_err(HelmfileError::cause)?;
    let found = Checksum::in_list(&String::from_utf8_lossy(&list), name);
    found.ok_or_else(|| HelmfileError::Address(format!("{location} has no checksum of {name}")))
}
