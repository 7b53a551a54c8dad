#!/usr/bin/env bash
# Runs the chart corpus through a windlass binary: corpus.sh BINARY. Without a corpus beside the project it says so and passes.
set -euo pipefail
binary=$(realpath "$1")
corpus=$(dirname "$0")/../../shared/corpus
if [ ! -f "$corpus/check.py" ]; then
  echo "no chart corpus at ../shared/corpus: skipped"
  exit 0
fi
report=$(mktemp)
trap 'rm -f "$report"' EXIT
python3 "$corpus/check.py" --quiet --report "$report" --cmd "$binary template {release} {chart} -n {namespace} --kube-version {kubeVersion} -f {values} [-a {apiVersion}] [--include-crds] [--is-upgrade]" || true
python3 - "$report" "${CORPUS_MINIMUM:-311}" <<'P'
import json, sys
totals, minimum = json.load(open(sys.argv[1]))["totals"], int(sys.argv[2])
print(f"corpus: {totals['bytes']} of {totals['ok']} cases in Helm's bytes, {totals['failed']} of {totals['error']} error cases fail as they must")
sys.exit(0 if totals["bytes"] >= minimum and totals["failed"] == totals["error"] else "fewer than the minimum of %d" % minimum)
P
