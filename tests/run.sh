#!/usr/bin/env bash
# `make run`: builds windlass and the programs of the test control plane side by side, then runs tests/quick-start.sh on it. Cargo
# leaves a processor idle while it links or waits for a single crate; Go uses it.
set -euo pipefail
cd "$(dirname "$0")/.."
begin=$SECONDS
say() { echo "make run: $* ($((SECONDS - begin)) s since the start)"; }

control_plane=${CARGO_TARGET_DIR:-target}/debug/control-plane
windlass=${CARGO_TARGET_DIR:-target}/debug/windlass
say "step 1 of 3: the program that starts a control plane"
cargo build --quiet -p windlass-testing --bin control-plane

tools=()
if [ -z "${WINDLASS_TEST_KUBECONFIG:-}" ]; then
  say "step 2 of 3: windlass by Cargo, and etcd, Kubernetes and kwok by Go; minutes the first time, nothing later"
  "$control_plane" tools cluster >/dev/null &
  tools=($!)
  trap 'kill "${tools[@]}" 2>/dev/null || true' EXIT
else
  say "step 2 of 3: windlass by Cargo"
fi
cargo build --bin windlass
say "windlass is built"
for pid in "${tools[@]}"; do wait "$pid"; say "the control plane's programs are built"; done
trap - EXIT

say "step 3 of 3: a control plane, and the operator on modules/"
export WINDLASS=$windlass WINDLASS_BEGIN=$((SECONDS - begin))
exec "$control_plane" run -- tests/quick-start.sh
