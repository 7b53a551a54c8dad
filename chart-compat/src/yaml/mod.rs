//! stub
use crate::data::{Data, Map};
/// e
#[derive(Debug)]
pub struct Error;
impl std::fmt::Display for Error { fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { Ok(()) } }
/// h
#[derive(Clone, Debug, Default)]
pub struct Head { #[allow(missing_docs)] pub kind: String }
impl Head { #[allow(missing_docs)] pub fn annotation(&self, _: &str) -> Option<&str> { None } }
/// x
pub fn from_slice(_: &[u8]) -> Result<Data, Error> { Err(Error) }
/// x
pub fn from_slice_map(_: &[u8]) -> Result<Map, Error> { Err(Error) }
/// x
pub fn head(_: &[u8]) -> Result<Head, Error> { Err(Error) }
