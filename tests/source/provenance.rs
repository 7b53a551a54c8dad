//! Provenance: what we sign Helm verifies, what Helm signs we verify, and what was changed neither takes.

use std::fs;
use std::process::{Command, Stdio};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::server::Server;
use super::support::{User, chart};

/// Makes keys as users do, with GnuPG: two plain ones and one with a passphrase. `None` where there is no GnuPG.
fn keys(user: &User) -> Option<()> {
    let home = user.path("gnupg");
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let gpg = |args: &[&str]| -> Option<Vec<u8>> {
        let mut command = Command::new("gpg");
        command
            .arg("--homedir")
            .arg(&home)
            .args(["--batch", "--quiet", "--pinentry-mode", "loopback"])
            .args(args);
        let output = command.stdin(Stdio::null()).output().ok()?;
        assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
        Some(output.stdout)
    };
    gpg(&[
        "--passphrase",
        "",
        "--quick-generate-key",
        "Rsa Signer (test) <rsa@example.test>",
        "rsa2048",
        "sign",
        "never",
    ])?;
    gpg(&[
        "--passphrase",
        "",
        "--quick-generate-key",
        "Ed Signer <ed@example.test>",
        "ed25519",
        "sign",
        "never",
    ])?;
    gpg(&[
        "--passphrase",
        "open sesame",
        "--quick-generate-key",
        "Careful Signer <careful@example.test>",
        "rsa2048",
        "sign",
        "never",
    ])?;
    gpg(&[
        "--passphrase",
        "",
        "--quick-generate-key",
        "Late Signer <late@example.test>",
        "rsa2048",
        "sign",
        "never",
    ])?;
    let secret = gpg(&["--passphrase", "open sesame", "--export-secret-keys"])?;
    fs::write(user.path("secring.gpg"), secret).unwrap();
    fs::write(user.path("pubring.gpg"), gpg(&["--export"])?).unwrap();
    fs::write(user.path("pubring.asc"), gpg(&["--export", "--armor"])?).unwrap();
    fs::write(user.path("only-ed.gpg"), gpg(&["--export", "ed@example.test"])?).unwrap();
    drop(Command::new("gpgconf").arg("--homedir").arg(&home).args(["--kill", "all"]).output());
    user.write("passphrase", "open sesame\n");
    Some(())
}

fn packed(user: &User) {
    chart(&user.path("web"), "web", "1.2.3", "annotations: {dash: \"- x\"}\nsources: [\"-----\"]\n");
}

#[test]
fn each_verifies_what_the_other_signed() {
    let user = User::new();
    if keys(&user).is_none() {
        println!("no gpg: skipped");
        return;
    }
    packed(&user);
    let secret = ["--keyring", "secring.gpg"];
    for (key, flags) in [
        ("Rsa Signer", &[][..]),
        ("Ed Signer", &[]),
        ("careful@example.test", &["--passphrase-file", "passphrase"]),
    ] {
        for ours in [true, false] {
            let sign = [&["package", "web", "--sign", "--key", key][..], &secret, flags].concat();
            if ours {
                user.ok(&sign)
            } else {
                user.helm_ok(&sign)
            };
            for ring in ["pubring.gpg", "pubring.asc", "gnupg/pubring.kbx", "secring.gpg"] {
                let verify = ["verify", "web-1.2.3.tgz", "--keyring", ring];
                let (own, theirs) = (user.ours(&verify), user.helm(&verify));
                assert_eq!(
                    (own.ok, own.out, own.err),
                    (theirs.ok, theirs.out.clone(), theirs.err),
                    "{key} {ours} {ring}"
                );
                assert!(theirs.out.contains("Signed by: "), "{}", theirs.out);
            }
        }
    }
}

#[test]
fn what_was_changed_is_refused_in_helms_words() {
    let user = User::new();
    if keys(&user).is_none() {
        println!("no gpg: skipped");
        return;
    }
    packed(&user);
    user.ok(&["package", "web", "--sign", "--key", "Rsa", "--keyring", "secring.gpg"]);
    let package = fs::read(user.path("web-1.2.3.tgz")).unwrap();
    let signed = user.read("web-1.2.3.tgz.prov");
    let other = signed.replace("name: web", "name: wed");
    let cases: [(&[u8], &str, &str, &str); 6] = [
        (&package, &signed, "only-ed.gpg", "openpgp: signature made by unknown entity"),
        (
            &package,
            &signed,
            "nowhere.gpg",
            "failed to load keyring: open nowhere.gpg: no such file or directory",
        ),
        (b"x", &signed, "pubring.gpg", "sha256 sum does not match for web-1.2.3.tgz: \"sha256:"),
        (&package, &other, "pubring.gpg", "openpgp: invalid signature"),
        (&package, "nothing", "pubring.gpg", "signature block not found"),
        (&package, "", "pubring.gpg", "signature block not found"),
    ];
    for (bytes, provenance, ring, want) in cases {
        fs::write(user.path("web-1.2.3.tgz"), bytes).unwrap();
        user.write("web-1.2.3.tgz.prov", provenance);
        let verify = ["verify", "web-1.2.3.tgz", "--keyring", ring];
        let (own, theirs) = (user.fails(&verify), user.helm(&verify));
        assert!(own.contains(want) && theirs.err.contains(want), "{want}\n{own}\n{}", theirs.err);
    }
    fs::rename(user.path("web-1.2.3.tgz"), user.path("wed-1.2.3.tgz")).unwrap();
    user.write("wed-1.2.3.tgz.prov", &signed);
    fs::write(user.path("wed-1.2.3.tgz"), &package).unwrap();
    let cases: [&[&str]; 9] = [
        &["verify", "wed-1.2.3.tgz", "--keyring", "pubring.gpg"],
        &["verify", "web", "--keyring", "pubring.gpg"],
        &["verify", "pubring.gpg", "--keyring", "pubring.gpg"],
        &["verify", "none.tgz", "--keyring", "pubring.gpg"],
        &["package", "web", "--sign", "--keyring", "secring.gpg"],
        &["package", "web", "--sign", "--key", "Signer", "--keyring", "secring.gpg"],
        &["package", "web", "--sign", "--key", "nobody", "--keyring", "secring.gpg"],
        &["package", "web", "--sign", "--key", "Rsa", "--keyring", "pubring.gpg"],
        &["template", "wed-1.2.3.tgz", "--verify", "--keyring", "pubring.gpg"],
    ];
    for case in cases {
        let (own, theirs) = (user.ours(case), user.helm(case));
        assert!(!own.ok && !theirs.ok, "{case:?}\n{}", theirs.out);
        assert_eq!(own.err, theirs.err, "{case:?}");
    }
    user.write("passphrase", "wrong\n");
    let error = user.fails(&[
        "package",
        "web",
        "--sign",
        "--key",
        "Careful",
        "--keyring",
        "secring.gpg",
        "--passphrase-file",
        "passphrase",
    ]);
    assert!(error.contains("private key checksum failure"), "{error}");
    let error = user.fails(&["package", "web", "--sign", "--key", "Careful", "--keyring", "secring.gpg"]);
    assert!(error.contains("is protected: give its passphrase by --passphrase-file"), "{error}");
}

#[test]
fn charts_are_verified_on_their_way() {
    let (server, user) = (Server::plain(), User::new());
    if keys(&user).is_none() {
        println!("no gpg: skipped");
        return;
    }
    packed(&user);
    user.ok(&["package", "web", "--sign", "--key", "Rsa", "--keyring", "secring.gpg", "-d", "repository"]);
    chart(&user.path("plain"), "plain", "1.0.0", "");
    user.ok(&["package", "plain", "-d", "repository"]);
    user.ok(&["repo", "index", "repository"]);
    super::repositories::serve(&user, &server);
    user.ok(&["repo", "add", "a", &format!("{}/charts", server.url)]);
    let verify = ["--verify", "--keyring", "pubring.gpg"];
    let pull = [&["pull", "a/web"][..], &verify].concat();
    let own = user.ok(&pull);
    assert!(own.contains("Signed by: Rsa Signer (test) <rsa@example.test>"), "{own}");
    assert_eq!(own, user.helm_ok(&pull));
    assert_eq!(user.files("").iter().filter(|f| f.starts_with("web-1.2.3.tgz")).count(), 2);
    for case in [&["template", "a/web"][..], &["show", "chart", "a/web"]] {
        user.ok(&[case, &verify].concat());
        let error = user.fails(&[case, &["--verify", "--keyring", "only-ed.gpg"]].concat());
        assert!(error.contains("openpgp: signature made by unknown entity"), "{error}");
    }
    let error = user.fails(&[&["pull", "a/plain"][..], &verify].concat());
    assert!(error.contains("failed to fetch provenance"), "{error}");
    assert!(!user.path("plain-1.0.0.tgz").exists());
    let umbrella =
        format!("dependencies: [{{name: web, version: 1.2.3, repository: \"{}/charts\"}}]\n", server.url);
    chart(&user.path("umbrella"), "umbrella", "1.0.0", &umbrella);
    user.ok(&[&["dependency", "update", "umbrella"][..], &verify].concat());
    fs::remove_file(user.path("umbrella/charts/web-1.2.3.tgz")).unwrap();
    let error = user.fails(&["dependency", "update", "umbrella", "--verify", "--keyring", "only-ed.gpg"]);
    assert!(error.contains("openpgp: signature made by unknown entity"), "{error}");
    assert!(!user.path("umbrella/charts/web-1.2.3.tgz").exists());
}

#[test]
fn cosign_signatures_are_checked_with_a_given_key() {
    let (server, user) = (Server::plain(), User::new());
    packed(&user);
    user.ok(&["package", "web"]);
    let host = server.url.strip_prefix("http://").unwrap();
    let sha = |bytes: &[u8]| {
        format!("sha256:{}", Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>())
    };
    let package = fs::read(user.path("web-1.2.3.tgz")).unwrap();
    let manifest = format!(
        "{{\"schemaVersion\":2,\"config\":{{\"mediaType\":\"application/vnd.cncf.helm.config.v1+json\",\"digest\":\"{}\",\"size\":2}},\
         \"layers\":[{{\"mediaType\":\"application/vnd.cncf.helm.chart.content.v1.tar+gzip\",\"digest\":\"{}\",\"size\":{}}}]}}",
        sha(b"{}"),
        sha(&package),
        package.len()
    );
    let digest = sha(manifest.as_bytes());
    server.body("/v2/web/manifests/1.2.3", manifest);
    server.body(&format!("/v2/web/blobs/{}", sha(&package)), package);
    // As cosign writes its keys and signatures.
    let random = SystemRandom::new();
    let pair = |name: &str| {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref()).unwrap();
        let mut der = b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00".to_vec();
        der.extend_from_slice(pair.public_key().as_ref());
        user.write(
            name,
            &format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der)),
        );
        pair
    };
    let (own, other) = (pair("own.pub"), pair("other.pub"));
    let sign = |pair: &EcdsaKeyPair, of: &str| {
        let payload = format!(
            "{{\"critical\":{{\"identity\":{{\"docker-reference\":\"{host}/web\"}},\"image\":{{\"docker-manifest-digest\":\"{of}\"}},\
             \"type\":\"cosign container image signature\"}},\"optional\":null}}"
        );
        let signature = STANDARD.encode(pair.sign(&random, payload.as_bytes()).unwrap().as_ref());
        let layer = format!(
            "{{\"schemaVersion\":2,\"layers\":[{{\"mediaType\":\"application/vnd.dev.cosign.simplesigning.v1+json\",\"digest\":\"{}\",\
             \"size\":{},\"annotations\":{{\"dev.cosignproject.cosign/signature\":\"{signature}\"}}}}]}}",
            sha(payload.as_bytes()),
            payload.len()
        );
        server.body(&format!("/v2/web/blobs/{}", sha(payload.as_bytes())), payload);
        server.body(&format!("/v2/web/manifests/{}.sig", digest.replace(':', "-")), layer);
    };
    let pull = |key: &str| {
        user.ours(&["pull", &format!("oci://{host}/web:1.2.3"), "--plain-http", "--cosign-key", key])
    };
    fs::remove_file(user.path("web-1.2.3.tgz")).unwrap();
    let refused = |key: &str, want: &str| {
        let said = pull(key);
        assert!(!said.ok && said.err.contains(want), "{want}: {}", said.err);
        assert!(!user.path("web-1.2.3.tgz").exists());
    };
    refused("own.pub", "no cosign signature found");
    sign(&other, &digest);
    refused("own.pub", "none of 1 cosign signatures is of the key own.pub");
    sign(&own, &sha(b"another artifact"));
    refused("own.pub", "none of 1 cosign signatures is of the key own.pub");
    refused("passphrase", "passphrase: ");
    sign(&own, &digest);
    refused("other.pub", "none of 1 cosign signatures is of the key other.pub");
    let said = pull("own.pub");
    assert!(said.ok, "{}", said.err);
}

#[test]
fn subkeys_of_gnupg_sign_until_they_are_revoked() {
    let user = User::new();
    let home = user.path("gnupg");
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    user.write("nothing", "");
    let gpg = |args: &[&str], input: &str| {
        let mut command = Command::new("gpg");
        let common = ["--no-tty", "--quiet", "--yes", "--pinentry-mode", "loopback", "--passphrase", ""];
        let input = fs::File::open(user.path(input)).unwrap();
        command.arg("--homedir").arg(&home).args(common).args(args).current_dir(user.path("")).stdin(input);
        let output = command.output().ok()?;
        assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
        Some(output.stdout)
    };
    let name = "Release <release@example.test>";
    if gpg(&["--batch", "--quick-generate-key", name, "rsa2048", "cert", "never"], "nothing").is_none() {
        println!("no gpg: skipped");
        return;
    }
    let listed = gpg(&["--batch", "--list-keys", "--with-colons"], "nothing").unwrap();
    let listed = String::from_utf8(listed).unwrap();
    let primary = listed.lines().find(|l| l.starts_with("fpr:")).unwrap().split(':').nth(9).unwrap();
    gpg(&["--batch", "--quick-add-key", primary, "rsa2048", "sign", "never"], "nothing");
    packed(&user);
    user.ok(&["package", "web"]);
    let sum = Sha256::digest(fs::read(user.path("web-1.2.3.tgz")).unwrap());
    let sum: String = sum.iter().map(|b| format!("{b:02x}")).collect();
    user.write("message", &format!("name: web\n\n...\nfiles:\n  web-1.2.3.tgz: sha256:{sum}\n"));
    let sign = ["--batch", "--clearsign", "--output", "web-1.2.3.tgz.prov", "message"];
    gpg(&sign, "nothing");
    let verify = ["verify", "web-1.2.3.tgz", "--keyring", "pubring.gpg"];
    let both = |want: Result<&str, &str>| {
        fs::write(user.path("pubring.gpg"), gpg(&["--batch", "--export"], "nothing").unwrap()).unwrap();
        let (own, theirs) = (user.ours(&verify), user.helm(&verify));
        assert_eq!((own.ok, &own.out, &own.err), (theirs.ok, &theirs.out, &theirs.err));
        match want {
            Ok(want) => assert!(own.ok && own.out.contains(want), "{}", own.err),
            Err(want) => assert!(!own.ok && own.err.contains(want), "{}", own.err),
        }
    };
    both(Ok("Signed by: Release <release@example.test>"));
    user.write("commands", "key 1\nrevkey\ny\n0\n\ny\nsave\n");
    gpg(&["--command-fd", "0", "--edit-key", primary], "commands");
    both(Err("openpgp: signature made by revoked key"));
    // What we sign GnuPG verifies, and what it would not verify we do not sign: Helm signs with any primary key.
    gpg(
        &["--batch", "--quick-generate-key", "Maker <maker@example.test>", "nistp256", "sign", "never"],
        "nothing",
    );
    let secret = gpg(&["--batch", "--export-secret-keys"], "nothing").unwrap();
    fs::write(user.path("secring.gpg"), secret).unwrap();
    let sign = |key| ["package", "web", "--sign", "--key", key, "--keyring", "secring.gpg"];
    let error = user.fails(&sign("Release"));
    assert!(error.contains("cannot sign: the primary key is not for signing"), "{error}");
    user.ok(&sign("Maker"));
    let checked = gpg(&["--batch", "--status-fd", "1", "--verify", "web-1.2.3.tgz.prov"], "nothing").unwrap();
    let checked = String::from_utf8(checked).unwrap();
    assert!(checked.contains("[GNUPG:] GOODSIG"), "{checked}");
    both(Ok("Signed by: Maker <maker@example.test>"));
    drop(Command::new("gpgconf").arg("--homedir").arg(&home).args(["--kill", "all"]).output());
}
