//! IPv6 addresses, with the error texts of Go's `netip.ParseAddr`.

use crate::go::strconv::quote;

/// Checks that a text is an IPv6 address without a zone.
pub(super) fn ipv6(s: &str) -> Result<(), String> {
    if !s.contains(':') {
        return Err("missing colon".to_owned());
    }
    let told = |why: Wrong<'_>| {
        let at =
            if why.at.is_empty() { String::new() } else { format!(" (at {})", quote(why.at.as_bytes())) };
        format!("ParseAddr({}): {}{at}", quote(s.as_bytes()), why.why)
    };
    // The first of these characters determines the kind of address.
    match s.find(['.', ':', '%']).map(|at| s.as_bytes()[at]) {
        Some(b'.') => ipv4(s).map_err(told),
        Some(b'%') => Err(told(Wrong { why: "missing IPv6 address", at: "" })),
        _ => {
            let (address, zone) = s.split_once('%').map_or((s, None), |(a, z)| (a, Some(z)));
            match zone {
                Some("") => Err(told(Wrong { why: "zone must be a non-empty string", at: "" })),
                Some(_) => {
                    groups(address).map_err(told)?;
                    Err("zone id is not a part of ipv6 address".to_owned())
                }
                None => groups(address).map_err(told),
            }
        }
    }
}

/// The error, and the rest of the text if that helps.
struct Wrong<'s> {
    why: &'static str,
    at: &'s str,
}

fn wrong<'s>(why: &'static str, at: &'s str) -> Result<(), Wrong<'s>> {
    Err(Wrong { why, at })
}

fn ipv4(s: &str) -> Result<(), Wrong<'_>> {
    let (mut value, mut length, mut dots) = (0u32, 0, 0);
    for (i, b) in s.bytes().enumerate() {
        match b {
            b'0'..=b'9' => {
                if length == 1 && value == 0 {
                    return wrong("IPv4 field has octet with leading zero", "");
                }
                value = value * 10 + u32::from(b - b'0');
                length += 1;
                if value > 255 {
                    return wrong("IPv4 field has value >255", "");
                }
            }
            b'.' => {
                if i == 0 || i == s.len() - 1 || s.as_bytes()[i - 1] == b'.' {
                    return wrong("IPv4 field must have at least one digit", &s[i..]);
                }
                if dots == 3 {
                    return wrong("IPv4 address too long", "");
                }
                dots += 1;
                (value, length) = (0, 0);
            }
            _ => return wrong("unexpected character", s.get(i..).unwrap_or_default()),
        }
    }
    if dots < 3 { wrong("IPv4 address too short", "") } else { Ok(()) }
}

fn groups(whole: &str) -> Result<(), Wrong<'_>> {
    let mut s = whole;
    let mut gap = false;
    if let Some(rest) = s.strip_prefix("::") {
        gap = true;
        s = rest;
        if s.is_empty() {
            return Ok(());
        }
    }
    let mut bytes = 0;
    while bytes < 16 {
        let digits = s.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return wrong("each group must have 4 or less digits", s);
        }
        if digits == 0 {
            return wrong("each colon-separated field must have at least one digit", s);
        }
        if s.as_bytes().get(digits) == Some(&b'.') {
            if !gap && bytes != 12 {
                return wrong("embedded IPv4 address must replace the final 2 fields of the address", s);
            }
            if bytes + 4 > 16 {
                return wrong("too many hex fields to fit an embedded IPv4 at the end of the address", s);
            }
            ipv4(s)?;
            s = "";
            bytes += 4;
            break;
        }
        bytes += 2;
        s = &s[digits..];
        if s.is_empty() {
            break;
        }
        let Some(rest) = s.strip_prefix(':') else { return wrong("unexpected character, want colon", s) };
        if rest.is_empty() {
            return wrong("colon must be followed by more characters", s);
        }
        s = rest;
        if let Some(rest) = s.strip_prefix(':') {
            if gap {
                return wrong("multiple :: in address", s);
            }
            gap = true;
            s = rest;
            if s.is_empty() {
                break;
            }
        }
    }
    if !s.is_empty() {
        wrong("trailing garbage after address", s)
    } else if bytes < 16 && !gap {
        wrong("address string too short", "")
    } else if bytes == 16 && gap {
        wrong("the :: must expand to at least one field of zeros", "")
    } else {
        Ok(())
    }
}
