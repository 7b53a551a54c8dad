#!/usr/bin/env bash
# What `make run` runs inside a control plane: the operator on modules/, and a list of things to try. Ends with Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
namespace=windlass
kubectl create namespace "$namespace" --dry-run=client -o yaml | kubectl apply -f - >/dev/null

target/release/windlass operator --namespace "$namespace" --modules-dir modules --listen-address 127.0.0.1 --listen-port 0 \
  --port-file "${TMPDIR:-/tmp}/windlass-port.$$" &
operator=$!
trap 'kill -TERM "$operator" 2>/dev/null; wait "$operator" || true; rm -f "${TMPDIR:-/tmp}/windlass-port.$$"' EXIT
trap 'exit 0' INT TERM

until [ -s "${TMPDIR:-/tmp}/windlass-port.$$" ]; do
  kill -0 "$operator" || exit 1
  sleep 0.05
done
port=$(cat "${TMPDIR:-/tmp}/windlass-port.$$")
until curl -sf "http://127.0.0.1:$port/readyz" >/dev/null 2>&1 || (exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3 && grep -q ' 200 ' <&3) 2>/dev/null; do
  kill -0 "$operator" || exit 1
  sleep 0.05
done

cat <<E

converged: the modules of modules/ are in namespace $namespace.

Try, in another terminal:

  export KUBECONFIG=$KUBECONFIG PATH=$PATH

  helm list -n $namespace                     # real Helm reads what windlass recorded
  helm get manifest echo -n $namespace
  kubectl get tenants -n $namespace
  kubectl delete service echo -n $namespace && sleep 1 && kubectl get service echo -n $namespace   # it is back
  kubectl create configmap addon-operator -n $namespace --from-literal=echo='{replicas: 3}'        # a value changes
  helm history echo -n $namespace
  kubectl patch configmap addon-operator -n $namespace --type merge -p '{"data":{"cacheEnabled":"false"}}'   # a module goes
  curl http://127.0.0.1:$port/metrics

Ctrl-C ends it all.
