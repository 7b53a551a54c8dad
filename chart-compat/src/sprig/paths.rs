//! Paths and URLs.

use super::args::{Out, bytes, fail};
use crate::go::url::Url;
use crate::go::{Map, MapKind, Value, path};
use crate::template::{Error, Exec, Func, Type};

use Type::{Map as Dict, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("base", &[Str], |_, a| Ok(Value::Str(path::base(bytes(a[0]))))),
    Func::new("osBase", &[Str], |_, a| Ok(Value::Str(path::base(bytes(a[0]))))),
    Func::new("dir", &[Str], |x, a| Ok(Value::str(x.arena, path::dir(bytes(a[0]))))),
    Func::new("osDir", &[Str], |x, a| Ok(Value::str(x.arena, path::dir(bytes(a[0]))))),
    Func::new("clean", &[Str], |x, a| Ok(Value::str(x.arena, path::clean(bytes(a[0]))))),
    Func::new("osClean", &[Str], |x, a| Ok(Value::str(x.arena, path::clean(bytes(a[0]))))),
    Func::new("ext", &[Str], |_, a| Ok(Value::Str(path::ext(bytes(a[0]))))),
    Func::new("osExt", &[Str], |_, a| Ok(Value::Str(path::ext(bytes(a[0]))))),
    Func::new("isAbs", &[Str], |_, a| Ok(Value::Bool(path::is_abs(bytes(a[0]))))),
    Func::new("osIsAbs", &[Str], |_, a| Ok(Value::Bool(path::is_abs(bytes(a[0]))))),
    Func::new("urlParse", &[Str], url_parse),
    Func::new("urlJoin", &[Dict], url_join),
];

fn url_parse<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let url = Url::parse(bytes(a[0])).map_err(|e| Error::new(format!("unable to parse url: {e}")))?;
    let user = url.user.as_ref().map(crate::go::url::User::to_bytes).unwrap_or_default();
    let map = Map::with_capacity(x.arena, MapKind::Any, 8);
    let parts: [(&'static str, &[u8]); 8] = [
        ("fragment", &url.fragment),
        ("host", &url.host),
        ("hostname", url.hostname()),
        ("opaque", &url.opaque),
        ("path", &url.path),
        ("query", &url.raw_query),
        ("scheme", &url.scheme),
        ("userinfo", &user),
    ];
    for (name, part) in parts {
        map.insert(name.as_bytes(), Value::str(x.arena, part));
    }
    Ok(Value::Map(map))
}

fn url_join<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let part = |key: &str| -> Result<Vec<u8>, Error> {
        match a[0].as_map().and_then(|m| m.get(key.as_bytes())) {
            None => Ok(Vec::new()),
            Some(Value::Str(s)) => Ok(s.to_vec()),
            Some(v) if v.is_nil() => fail(super::args::NIL_POINTER),
            Some(other) => {
                fail(format!("unable to parse {key} key, must be of type string, but {} found", other.kind()))
            }
        }
    };
    let mut url = Url {
        scheme: part("scheme")?,
        host: part("host")?,
        path: part("path")?,
        raw_query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        ..Url::default()
    };
    let user = part("userinfo")?;
    if !user.is_empty() {
        let proxy = [b"proto://", &user[..], b"@host"].concat();
        url.user = Url::parse(&proxy)
            .map_err(|e| Error::new(format!("unable to parse userinfo in dict: {e}")))?
            .user;
    }
    Ok(Value::str(x.arena, url.to_bytes()))
}
