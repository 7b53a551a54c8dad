#!/usr/bin/env bash
# Builds the kustomizations of the corpus with a windlass binary: kustomize.sh BINARY. All must be equal to kustomize's output. Without a
# corpus beside the project it says so and passes.
set -euo pipefail
binary=$(realpath "$1")
corpus=$(realpath "$(dirname "$0")")/../../../shared/kustomize
if [ ! -d "$corpus/cases" ]; then
  echo "no kustomize corpus at ../shared/kustomize: skipped"
  exit 0
fi
exec python3 "$corpus/check.py" --cmd "$binary build {dir}"
