#!/usr/bin/env bash
# Evaluates the helmfiles of the corpus with a windlass binary: helmfile.sh BINARY. All must be equal to helmfile's output. Without a
# corpus beside the project it says so and passes.
set -euo pipefail
binary=$(realpath "$1")
corpus=$(realpath "$(dirname "$0")")/../../../shared/helmfile
if [ ! -d "$corpus/cases" ]; then
  echo "no helmfile corpus at ../shared/helmfile: skipped"
  exit 0
fi
exec python3 "$corpus/check.py" --cmd "$binary helmfile"
