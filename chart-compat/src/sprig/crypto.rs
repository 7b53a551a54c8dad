//! sprig's private keys and certificates. Digests, password hashes and AES are in `hashes`.
//!
//! Owns the functions' Go signatures and texts. The [`World`] provides random numbers, the clock, key generation and signing.
//! Results pass through [`World::remember`], so a replaying world returns them again.

pub(crate) mod certificate;
mod der;
mod dsa;
mod keys;
mod pem;
mod x509;

use super::args::{Out, bytes, int, text};
use crate::go::object::Struct;
use crate::go::{Object, Value, strconv};
use crate::template::{Error, Exec, Func, Type};
use crate::world::World;

use Type::{Int, List, String as Str};

/// Go's type name of the certificate functions' result.
const CERTIFICATE: &str = "sprig.certificate";

pub(super) const FUNCS: &[Func] = &[
    Func::new("genPrivateKey", &[Str], |x, a| {
        let key =
            made(x, "genPrivateKey", a, None, |world| Ok(keys::generate(world, bytes(a[0])).into_bytes()))?;
        Ok(Value::str(x.arena, key))
    }),
    Func::new("buildCustomCert", &[Str, Str], |x, a| {
        let pair = certificate::custom(bytes(a[0]), bytes(a[1])).map_err(Error::new)?;
        Ok(structure(x, &pair.cert, &pair.key))
    }),
    Func::new("genCA", &[Str, Int], |x, a| certified(x, "genCA", a, false)),
    Func::new("genCAWithKey", &[Str, Int, Str], |x, a| certified(x, "genCAWithKey", a, true)),
    Func::new("genSelfSignedCert", &[Str, List, List, Int], |x, a| {
        certified(x, "genSelfSignedCert", a, false)
    }),
    Func::new("genSelfSignedCertWithKey", &[Str, List, List, Int, Str], |x, a| {
        certified(x, "genSelfSignedCertWithKey", a, true)
    }),
    Func::new("genSignedCert", &[Str, List, List, Int, Type::Struct(CERTIFICATE)], |x, a| {
        certified(x, "genSignedCert", a, false)
    }),
    Func::new("genSignedCertWithKey", &[Str, List, List, Int, Type::Struct(CERTIFICATE), Str], |x, a| {
        certified(x, "genSignedCertWithKey", a, true)
    }),
];

/// A generated result, new or recorded. `days` is the validity of a certificate.
fn made<'a>(
    x: &mut Exec<'a>,
    name: &'static str,
    args: &[Value<'a>],
    days: Option<i64>,
    make: impl Fn(&dyn World) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, Error> {
    let mut failure = None;
    let texts: Vec<Vec<u8>> = args
        .iter()
        .map(|arg| match arg {
            Value::Object(Object::Struct(s)) => s.fields.iter().flat_map(|f| bytes(f.1)).copied().collect(),
            other => crate::go::fmt::sprint(*other),
        })
        .collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let world = x.world();
    let value = world.remember(&x.call_site(name, &texts, days), &mut || {
        make(world).unwrap_or_else(|e| {
            failure = Some(e);
            Vec::new()
        })
    });
    failure.map_or(Ok(value), |e| Err(Error::new(e)))
}

fn structure<'a>(x: &Exec<'a>, cert: &[u8], key: &[u8]) -> Value<'a> {
    let fields = [("Cert", Value::str(x.arena, cert)), ("Key", Value::str(x.arena, key))];
    Value::object(
        x.arena,
        Object::Struct(Struct {
            type_name: CERTIFICATE,
            fields: x.arena.alloc_slice_copy(&fields),
            text: None,
        }),
    )
}

/// The certificate functions. Arguments: the common name; IP addresses and DNS names, except for a CA; days; the signing CA, if
/// any; and the key if `with_key`.
fn certified<'a>(x: &mut Exec<'a>, name: &'static str, a: &[Value<'a>], with_key: bool) -> Out<'a> {
    let (key, rest) = match a.split_last() {
        Some((key, rest)) if with_key => (Some(bytes(*key)), rest),
        _ => (None, a),
    };
    let (ips, dns, days, authority) = match rest {
        [_, days] => (Value::Nil, Value::Nil, *days, None),
        [_, ips, dns, days] => (*ips, *dns, *days, None),
        [_, ips, dns, days, authority] => (*ips, *dns, *days, Some(*authority)),
        _ => return Err(Error::new(format!("{name}: wrong number of arguments"))),
    };
    let request = certificate::Request {
        common_name: rest[0].as_bytes().unwrap_or_default(),
        ips: addresses(ips)?,
        dns: names(dns)?,
        days: int(days),
        authority: rest.len() == 2,
    };
    let signer = authority.map(|v| match v {
        Value::Object(o) => {
            let field = |name: &str| o.field(name.as_bytes()).and_then(Value::as_bytes).unwrap_or_default();
            (field("Cert"), field("Key"))
        }
        _ => Default::default(),
    });
    let both = made(x, name, a, Some(request.days), |world| {
        let pair = certificate::make(world, &request, key, signer)?;
        Ok([pair.cert, pair.key].concat())
    })?;
    // The result is the certificate followed by the key.
    let split = memchr::memmem::rfind(&both, b"-----BEGIN ").unwrap_or(both.len());
    Ok(structure(x, &both[..split], &both[split..]))
}

fn addresses(list: Value<'_>) -> Result<Vec<core::net::IpAddr>, Error> {
    let items = list.as_items().unwrap_or_default();
    items
        .iter()
        .map(|ip| match ip {
            Value::Str(_) => {
                let text = text(*ip);
                x509::parse_ip(&text).ok_or_else(|| Error::new(format!("error parsing ip: {text}")))
            }
            other => Err(not_string("error parsing ip", *other)),
        })
        .collect()
}

fn names<'a>(list: Value<'a>) -> Result<Vec<&'a [u8]>, Error> {
    let items = list.as_items().unwrap_or_default();
    items
        .iter()
        .map(|name| match *name {
            Value::Str(s) => Ok(s),
            other => Err(not_string("error processing alternate dns name", other)),
        })
        .collect()
}

fn not_string(what: &str, value: Value<'_>) -> Error {
    let shown = crate::go::fmt::sprint(value);
    Error::new(format!("{what}: {} is not a string", String::from_utf8_lossy(&shown)))
}

/// A string as `%q` prints it.
fn quoted(s: &[u8]) -> String {
    strconv::quote(s)
}

#[cfg(test)]
mod tests;
