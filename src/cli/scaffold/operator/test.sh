#!/bin/sh
# Checks this repository with windlass alone: no cluster, no other tool. WINDLASS names another binary.
set -eu
cd "$(dirname "$0")"
windlass=${WINDLASS:-windlass}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

current() {
    cmp "config/$1" "$out/$1" || { echo "config/$1 is out of date; README.md has the command that writes it" >&2; exit 1; }
}

# The definition and the rights are those of the chart.
"$windlass" crd charts/<NAME> <FLAGS> >"$out/crd.yaml"
current crd.yaml
"$windlass" rbac charts/<NAME> <RBAC_FLAGS> >"$out/rbac.yaml"
current rbac.yaml

# The chart is sound and renders with the spec of the sample.
sed '1,/^spec:/d;s/^  //' samples/<SAMPLE>.yaml >"$out/values.yaml"
"$windlass" lint charts/<NAME> --values "$out/values.yaml"
"$windlass" template <SAMPLE> charts/<NAME> --namespace <NAMESPACE> --values "$out/values.yaml" >"$out/manifests.yaml"

# The kustomization has all that the operator needs.
"$windlass" build config >"$out/config.yaml"
for kind in Namespace CustomResourceDefinition ServiceAccount ClusterRole Role Deployment ChartResource; do
    grep -q "^kind: $kind\$" "$out/config.yaml" || { echo "config builds no $kind" >&2; exit 1; }
done
echo "all checks passed"
