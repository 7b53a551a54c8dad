//! Digests, password hashes and AES encryption.

use aes::Aes256;
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

use super::args::{Out, bytes, fail, int};
use super::base::{decode64, encode64};
use super::random::remembered;
use crate::go::Value;
use crate::template::{Error, Exec, Func, Type};

use Type::{String as Str, Uint32};

pub(super) const FUNCS: &[Func] = &[
    Func::new("sha1sum", &[Str], |x, a| Ok(Value::str(x.arena, hex(&sha1::Sha1::digest(bytes(a[0])))))),
    Func::new("sha256sum", &[Str], |x, a| Ok(Value::str(x.arena, hex(&Sha256::digest(bytes(a[0])))))),
    Func::new("sha512sum", &[Str], |x, a| Ok(Value::str(x.arena, hex(&Sha512::digest(bytes(a[0])))))),
    Func::new("adler32sum", &[Str], |x, a| Ok(Value::str(x.arena, adler32(bytes(a[0])).to_string()))),
    Func::new("bcrypt", &[Str], |x, a| {
        let hash = bcrypt(x, "bcrypt", b"", bytes(a[0]));
        Ok(Value::str(x.arena, hash))
    }),
    Func::new("htpasswd", &[Str, Str], htpasswd),
    Func::new("derivePassword", &[Uint32, Str, Str, Str, Str], derive_password),
    Func::new("encryptAES", &[Str, Str], encrypt_aes),
    Func::new("decryptAES", &[Str, Str], decrypt_aes),
];

/// Bytes in hexadecimal.
pub(super) fn hex(b: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    b.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

fn adler32(s: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    // The sums cannot overflow within 5552 bytes.
    for chunk in s.chunks(5552) {
        for byte in chunk {
            a += u32::from(*byte);
            b += a;
        }
        a %= 65_521;
        b %= 65_521;
    }
    b << 16 | a
}

/// bcrypt's default cost in Go.
const COST: u32 = 10;

fn bcrypt(x: &mut Exec<'_>, name: &'static str, user: &[u8], password: &[u8]) -> Vec<u8> {
    const FAILED: &str = "failed to encrypt string with bcrypt: bcrypt: ";
    if password.len() > 72 {
        return format!("{FAILED}password length exceeds 72 bytes").into_bytes();
    }
    let world = x.world();
    world.remember(&x.call_site(name, &[user, password], None), &mut || {
        let mut salt = [0; 16];
        world.random(&mut salt);
        match ::bcrypt::hash_with_salt(password, COST, salt) {
            Ok(parts) => parts.format_for_version(::bcrypt::Version::TwoA).into_bytes(),
            Err(e) => format!("{FAILED}{e}").into_bytes(),
        }
    })
}

fn htpasswd<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let user = bytes(a[0]);
    if user.contains(&b':') {
        return Ok(Value::str(x.arena, [b"invalid username: ", user].concat()));
    }
    let hash = bcrypt(x, "htpasswd", user, bytes(a[1]));
    Ok(Value::str(x.arena, [user, b":", &hash].concat()))
}

/// The templates of each password type of the Master Password algorithm. Each letter names a set of characters.
fn password_patterns(kind: &[u8]) -> Option<&'static [&'static str]> {
    Some(match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => return None,
    })
}

fn password_characters(class: char) -> &'static [u8] {
    match class {
        'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        'v' => b"aeiou",
        'c' => b"bcdfghjklmnpqrstvwxyz",
        'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        'n' => b"0123456789",
        'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

fn derive_password<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let kind = bytes(a[1]);
    let Some(patterns) = password_patterns(kind) else {
        return Ok(Value::str(x.arena, [b"cannot find password template ", kind].concat()));
    };
    let (password, user, site) = (bytes(a[2]), bytes(a[3]), bytes(a[4]));
    let length = |s: &[u8]| u32::try_from(s.len()).unwrap_or(u32::MAX).to_be_bytes();
    let counter = u32::try_from(int(a[0])).unwrap_or(0).to_be_bytes();
    let salt = [SEED, &length(user), user].concat();
    let digest = Sha256::digest([&length(password), password, &salt].concat());
    let key = x.world().derived_key(digest.into(), &mut || {
        let mut key = vec![0; 64];
        let derived = scrypt::Params::new(15, 8, 2).map(|p| scrypt::scrypt(password, &salt, &p, &mut key));
        if matches!(derived, Ok(Ok(()))) { key } else { Vec::new() }
    });
    if key.is_empty() {
        return fail("derivePassword: the key could not be derived");
    }
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else {
        return fail("derivePassword: the key could not be derived");
    };
    mac.update(&[SEED, &length(site), site, &counter].concat());
    let seed = mac.finalize().into_bytes();
    let pattern = patterns[usize::from(seed[0]) % patterns.len()];
    let out: Vec<u8> = pattern
        .chars()
        .zip(&seed[1..])
        .map(|(class, seed)| {
            let characters = password_characters(class);
            characters[usize::from(*seed) % characters.len()]
        })
        .collect();
    Ok(Value::str(x.arena, out))
}

/// The password, cut or zero-padded to the key's length.
fn aes_key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let n = password.len().min(32);
    key[..n].copy_from_slice(&password[..n]);
    key
}

fn encrypt_aes<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let (password, plain) = (bytes(a[0]), bytes(a[1]));
    if plain.is_empty() {
        return Ok(Value::Str(b""));
    }
    let text = remembered(x, "encryptAES", a, |world| {
        let mut iv = [0; 16];
        world.random(&mut iv);
        let fill = 16 - plain.len() % 16;
        let mut padded = plain.to_vec();
        padded.resize(plain.len() + fill, u8::try_from(fill).unwrap_or(16));
        let encryptor = cbc::Encryptor::<Aes256>::new(&aes_key(password).into(), &iv.into());
        let mut out = iv.to_vec();
        out.extend(encryptor.encrypt_padded_vec::<NoPadding>(&padded));
        encode64(&out)
    });
    Ok(Value::str(x.arena, text))
}

fn decrypt_aes<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let text = bytes(a[1]);
    if text.is_empty() {
        return Ok(Value::Str(b""));
    }
    let sealed = decode64(text).map_err(Error::new)?;
    if sealed.len() < 16 {
        // Go's error text depends on the capacity of its buffer.
        let room = text.len() / 4 * 3;
        return fail(if room < 16 {
            format!("runtime error: slice bounds out of range [:16] with capacity {room}")
        } else {
            format!("runtime error: slice bounds out of range [16:{}]", sealed.len())
        });
    }
    let (iv, body) = sealed.split_at(16);
    let decryptor = cbc::Decryptor::<Aes256>::new_from_slices(&aes_key(bytes(a[0])), iv);
    let Ok(Ok(plain)) = decryptor.map(|d| d.decrypt_padded_vec::<NoPadding>(body)) else {
        return fail("crypto/cipher: input not full blocks");
    };
    let Some(fill) = plain.last() else { return fail("runtime error: index out of range [-1]") };
    match plain.len().checked_sub(usize::from(*fill)) {
        Some(n) => Ok(Value::str(x.arena, &plain[..n])),
        None => {
            let over = usize::from(*fill) - plain.len();
            fail(format!("runtime error: slice bounds out of range [:-{over}]"))
        }
    }
}
