#!/usr/bin/env bash
# Records fixtures/sops: encrypts each file of fixtures/sops/plain with sops, for keys that are made here, and notes what sops decrypts
# it to. Takes the directory of sops, age and age-keygen. Needs gpg and ssh-keygen.
set -euo pipefail
programs=$(cd "$1" && pwd)
cd "$(dirname "$0")/../../../fixtures/sops"
PATH=$programs:$PATH
work=$(mktemp -d)
trap 'gpgconf --homedir "$work/gnupg" --kill all; rm -rf "$work"' EXIT
export HOME=$work GNUPGHOME=$work/gnupg
unset SOPS_AGE_KEY SOPS_AGE_KEY_FILE XDG_CONFIG_HOME
mkdir -p keys encrypted decrypted
rm -f keys/* encrypted/* decrypted/*

age-keygen -o keys/age.txt 2>/dev/null
age=$(age-keygen -y keys/age.txt)
other=$(age-keygen 2>/dev/null | age-keygen -y)
ssh-keygen -q -t ed25519 -N '' -C fixture -f "$work/id_ed25519"
mv "$work/id_ed25519" keys/id_ed25519
mkdir -m 700 "$GNUPGHOME"
gpg() { command gpg --batch --quiet --no-auto-check-trustdb --pinentry-mode loopback --passphrase '' "$@"; }
gpg --quick-generate-key fixture rsa2048 sign never 2>/dev/null
pgp=$(gpg --with-colons --list-keys | awk -F: '/^fpr/ { print $10; exit }')
gpg --quick-add-key "$pgp" rsa2048 encr never
gpg --export-secret-keys --output keys/secring.gpg

export SOPS_AGE_KEY_FILE=$PWD/keys/age.txt SOPS_AGE_SSH_PRIVATE_KEY_FILE=$PWD/keys/id_ed25519
# NAME PLAIN FLAGS…
record() {
  local name=$1 plain=$2
  shift 2
  sops encrypt --filename-override "$name" "$@" "plain/$plain" >"encrypted/$name"
  sops decrypt --filename-override "$name" "encrypted/$name" >"decrypted/$name"
}
record values.yaml values.yaml --age "$other,$age"
record values.json values.json --age "$age"
record values.env values.env --age "$age"
record values.bin values.bin --age "$age"
record regex.yaml values.yaml --age "$age" --encrypted-regex '^(password|list)$'
record ssh.yaml values.yaml --age "$(ssh-keygen -y -f keys/id_ed25519)"
record pgp.yaml values.yaml --pgp "$pgp"
printf 'creation_rules: [{age: %s, encrypted_regex: ^password$, mac_only_encrypted: true}]\n' "$age" >"$work/rules.yaml"
export SOPS_CONFIG=$work/rules.yaml
record mac-only.yaml values.yaml
