#!/usr/bin/env bash
# What `make run` runs inside a control plane: the operator on modules/, and a list of things to try. Ends with Ctrl-C. WINDLASS is the
# program, WINDLASS_BEGIN how many seconds its builds took.
set -euo pipefail
cd "$(dirname "$0")/.."
namespace=windlass
kubectl create namespace "$namespace" --dry-run=client -o yaml | kubectl apply -f - >/dev/null

scratch=$(mktemp -d)
"$WINDLASS" operator --namespace "$namespace" --modules-dir modules \
  --listen-address 127.0.0.1 --listen-port 0 --address-file "$scratch/address" &
operator=$!
trap 'kill -TERM "$operator" 2>/dev/null || true; wait "$operator" || true; rm -rf "$scratch"' EXIT
trap 'exit 0' INT TERM

# The probes, without asking for curl.
ready() {
  exec 3<>"/dev/tcp/${1%:*}/${1##*:}" || return 1
  printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
  head -n 1 <&3 | grep -q ' 200 '
}
until [ -s "$scratch/address" ] && ready "$(cat "$scratch/address")" 2>/dev/null; do
  kill -0 "$operator" 2>/dev/null || { echo "the operator ended before its first converge"; exit 1; }
  read -r -t 0.1 <> <(:) || true
done

cat <<TRY

converged $((SECONDS + WINDLASS_BEGIN)) s after the start of make run: the modules of modules/ are in namespace $namespace.

Try, in another terminal:

  export KUBECONFIG=$KUBECONFIG PATH=$(dirname "$(command -v helm)"):\$PATH
  helm list -n $namespace                     # real Helm reads what windlass recorded (its first call builds it: 2 minutes)
  helm get manifest echo -n $namespace
  kubectl get tenants -n $namespace

  kubectl delete service echo -n $namespace   # it is back within a second:
  kubectl get service echo -n $namespace

  # a value changes: one new revision
  kubectl create configmap addon-operator -n $namespace --from-literal=echo='{replicas: 3}'
  helm history echo -n $namespace

  # a module goes, and only that one
  kubectl patch configmap addon-operator -n $namespace --type merge -p '{"data":{"cacheEnabled":"false"}}'

  curl http://$(cat "$scratch/address")/metrics

Ctrl-C ends it all.
TRY
wait "$operator"
