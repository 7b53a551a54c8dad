//! The interface of a render to the outside: the cluster, the clock, randomness, DNS names, keys.
//!
//! Owns only the interface. The caller implements it, and can so replay, fake or forbid each operation.

use bytes::Bytes;

use crate::data::Data;

/// A point in time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// A kind of private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA with a number of bits.
    Rsa(usize),
    /// ECDSA on P-256.
    EcdsaP256,
    /// Ed25519.
    Ed25519,
}

/// The identity of a call that generates a value, stable when the chart is edited: neither lines nor the order of
/// different calls count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'c> {
    /// The function, e.g. `randAlphaNum`.
    pub function: &'c str,
    /// A digest of its arguments, in hexadecimal: they may be secrets.
    pub arguments: String,
    /// The file of the chart that is executed or included, e.g. `chart/templates/secret.yaml`.
    pub file: &'c str,
    /// The `define` within it that contains the call, or `file` again.
    pub template: &'c str,
    /// A digest of the plain entries (texts, numbers, booleans) of the map passed to the `define`; empty if there are none.
    pub context: String,
    /// The keys of the `range`s around it, outermost first, each followed by `/`.
    pub loops: String,
    /// The number of earlier calls of the file that are equal in all of this: 0 for the first.
    pub nth: usize,
    /// The validity of the value in days, for certificates.
    pub days: Option<i64>,
}

/// The error of a world without documents for schemas, with a remedy.
#[must_use]
pub fn refused(url: &str) -> &'static str {
    if url.starts_with("file:") {
        "a schema may refer to nothing outside values.schema.json: put it in there under \"$defs\""
    } else {
        "schemas are not fetched from the network: put it into values.schema.json, under \"$defs\" with this \"$id\", \
         or skip the check"
    }
}

/// The operations of a render on the outside.
pub trait World: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// The IANA name of the local zone, e.g. `UTC`.
    fn local_zone(&self) -> String;

    /// Fills `bytes` with unpredictable bytes.
    fn random(&self, bytes: &mut [u8]);

    /// Generates a private key: PKCS#8 in DER.
    ///
    /// # Errors
    /// The reason why no key of that kind can be generated.
    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String>;

    /// The public part of an ECDSA or Ed25519 key in PKCS#8: the uncompressed point, or the 32 bytes.
    ///
    /// # Errors
    /// The reason why the key has none; by default, that this world does not support it.
    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        let _ = pkcs8;
        Err("the public key of an ECDSA or Ed25519 key cannot be computed here".to_owned())
    }

    /// Signs `message` with a PKCS#8 key: RSA PKCS#1 v1.5 over SHA-256, ECDSA over the hash that goes with the curve (SHA-256
    /// for P-256, SHA-384 for P-384, SHA-512 for P-521; in DER), or Ed25519.
    ///
    /// # Errors
    /// The reason why the key cannot sign.
    fn sign(&self, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, String>;

    /// Objects of the cluster, for `lookup`: one by name, or with an empty name a `List`; an empty map when there is none.
    ///
    /// # Errors
    /// The error of the API server.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String>;

    /// The document at an absolute URL (`http`, `https` or `file`) that a chart's `values.schema.json` refers to.
    ///
    /// # Errors
    /// The reason, as text that follows `failing loading "URL":`; by default, that schemas must not refer to external
    /// documents, with a remedy.
    fn schema_document(&self, url: &str) -> Result<Bytes, String> {
        Err(refused(url).to_owned())
    }

    /// An address of `host`, for `getHostByName`; empty when DNS is off.
    fn resolve(&self, host: &str) -> String;

    /// A function of the caller, for templates that are not charts: their function table names those that exist. Charts have none.
    ///
    /// # Errors
    /// The function's error text; by default, that this world has no such function.
    fn host_function(&self, name: &str, arguments: &[Data]) -> Result<Data, String> {
        let _ = arguments;
        Err(format!("the function {name} does not exist here"))
    }

    /// A key that a slow function derives from passwords, by a digest of its arguments. The default derives it each time; a world
    /// that renders many texts with the same passwords can keep it.
    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        let _ = digest;
        derive()
    }

    /// Whether calls must come in the order in which Helm executes templates. If not, large charts render on two threads.
    fn in_order(&self) -> bool {
        false
    }

    /// The reason to stop the render now, if any: checked every few thousand nodes and before each expensive call. By default it never
    /// stops.
    fn stopped(&self) -> Option<String> {
        None
    }

    /// A value that a function generates from randomness or the clock. The default generates a new one each time, as Helm does; a world
    /// that replays returns the recorded value of the same call.
    fn remember(&self, call: &Call<'_>, make: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        let _ = call;
        make()
    }
}

/// A world for tests that do not need one: no time passes, nothing is random, looked up, signed or found.
#[cfg(test)]
pub(crate) struct Still {
    /// The result of [`World::in_order`].
    pub(crate) in_order: bool,
}

#[cfg(test)]
impl World for Still {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 0, nanos: 0 }
    }

    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn random(&self, out: &mut [u8]) {
        out.fill(0);
    }

    fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Ok(Data::Null)
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }

    fn in_order(&self) -> bool {
        self.in_order
    }
}
