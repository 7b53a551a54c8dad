#!/usr/bin/env bash
# Runs a corpus of ../shared by its check.py: check.sh NAME COMMAND. All outputs must be equal to those of the real tool. Without the
# corpus beside the project it says so and passes.
set -euo pipefail
name=$1 command=$2
corpus=$(realpath "$(dirname "$0")")/../../../shared/$name
if [ ! -d "$corpus/cases" ]; then
  echo "no $name corpus at ../shared/$name: skipped"
  exit 0
fi
exec python3 "$corpus/check.py" --cmd "$command"
