#!/usr/bin/env bash
# Runs the chart corpus through a windlass binary: run.sh BINARY. Without a corpus beside the project it says so and passes.
set -euo pipefail
binary=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
corpus=$here/../../../shared/corpus
if [ ! -d "$corpus/cases" ]; then
  echo "no chart corpus at ../shared/corpus: skipped"
  exit 0
fi
tool() {
  (cd "$here/../.." && cargo run --quiet -p windlass-testing --bin control-plane -- tools "$1") | sed "s/^$1=//"
}
helm4=$(tool Helm4)
helm3=$(tool Helm3)
exec python3 "$here/check.py" "$corpus" "$binary" "$helm4" "$helm3"
