#!/usr/bin/env python3
"""Measures HelmReleases of a chart of three objects; `make bench-helmreleases` runs this inside a control plane, with the binary of WINDLASS or the
release build.

Prints Markdown, for 100 and 1,000 releases (numbers as arguments choose others): the time until all are ready, the API requests of the operator
for each, what a reconcile with nothing to do asks for, and resident memory. helm-controller's figures are those that were measured with the same
chart and manifests, 8 at a time, at 1,000 requests per second (`--concurrent=8 --kube-api-qps=1000 --kube-api-burst=1000`); it is a container image, so
that it cannot run in the same run.
"""
import collections, hashlib, http.server, io, json, os, pathlib, signal, subprocess, sys, tarfile, tempfile, threading, time, urllib.request

import run
from run import SHARED, WINDLASS, Operator, kubectl
from scale import AUDIT, audit_end, settle

# Of helm-controller 1.6 with 100 of these releases, from its log, its metrics and /proc; at 600 it had 158 MiB.
PEER = {"ready": "12.7 s, 10 s CPU", "requests": "32", "asked": "2.4 s", "asked requests": "5", "elapsed requests": "5", "memory": "144 MiB, peak 184 MiB"}
NAMESPACE = "bench-helmreleases"
INTERVAL = 20
TEMPLATES = {
    "serviceaccount.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: \"{{ .Release.Name }}-demo\"}\n",
    "service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}-demo\"}\nspec: {selector: {app: \"{{ .Release.Name }}\"}, "
                    "ports: [{port: 80}]}\n",
    "deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ .Release.Name }}-demo\"}\nspec:\n  replicas: 1\n  selector: "
                       "{matchLabels: {app: \"{{ .Release.Name }}\"}}\n  template: {metadata: {labels: {app: \"{{ .Release.Name }}\"}}, spec: {containers: "
                       "[{name: main, image: x}]}}\n",
}


def package():
    """The chart that helm-controller was measured with; one like it where that is not at hand."""
    recorded = SHARED / "records/helm-controller/demo-0.1.0.tgz"
    if recorded.exists():
        return recorded.read_bytes()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        files = {"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 0.1.0\n", "values.yaml": "replicaCount: 1\n"}
        files |= {f"templates/{name}": text for name, text in TEMPLATES.items()}
        for name, text in files.items():
            entry = tarfile.TarInfo(f"demo/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def serve(content):
    """The address of a server whose every file is this."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_address[1]}"


def publish(namespace):
    """The chart as an artifact of a source-controller."""
    content = package()
    digest = hashlib.sha256(content).hexdigest()
    source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository", "metadata": {"name": "demo"},
              "spec": {"url": "oci://registry/demo", "interval": "1h"}}
    kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(source))
    status = {"observedGeneration": 1, "artifact": {
        "url": f"http://{serve(content)}/demo.tgz", "digest": f"sha256:{digest}", "revision": f"0.1.0@sha256:{digest}", "path": "demo.tgz",
        "lastUpdateTime": "2026-01-01T00:00:00Z"}}
    kubectl("patch", "ocirepository", "demo", "-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def release(number, interval):
    return {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": f"r{number:04d}"},
            "spec": {"chartRef": {"kind": "OCIRepository", "name": "demo"}, "interval": interval, "install": {"disableWait": True},
                     "upgrade": {"disableWait": True}, "values": {"autoscaling": {"enabled": False}, "replicaCount": 1}}}


class HelmReleaseOperator(Operator):
    def __init__(self, namespace):
        self.scratch = tempfile.mkdtemp()
        self.address = os.path.join(self.scratch, "address")
        self.log = open(os.path.join(self.scratch, "log"), "w")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [WINDLASS, "operator", "--controllers=helmreleases", "--sources=flux", "--notifications=flux", "--allow-local-sources", "--namespace", namespace,
             "--helm-controller-namespace", namespace, "--listen-address", "127.0.0.1", "--listen-port", "0", "--address-file", self.address],
            stderr=self.log)

    def reconciles(self):
        """How many passes over HelmReleases have ended."""
        with open(self.address) as address:
            text = urllib.request.urlopen(f"http://{address.read()}/metrics").read().decode()
        lines = [line for line in text.splitlines() if line.startswith("windlass_reconciles_total{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


class Watch:
    """How many HelmReleases of a namespace show something, as a watch tells: polling lists of 1,000 would be work that is measured, too."""
    def __init__(self, namespace, shown, wanted):
        self.seen, self.count = set(), 0
        # The watch begins with the objects that exist.
        self.process = subprocess.Popen(
            ["kubectl", "get", "helmreleases", "-n", namespace, "--watch", "-o", f"jsonpath={{.metadata.name}} {shown}{{'\\n'}}"],
            stdout=subprocess.PIPE, text=True)
        self.wanted = wanted

    def wait(self, count):
        for line in self.process.stdout:
            name, _, shown = line.strip().partition(" ")
            if shown == self.wanted:
                self.seen.add(name)
            if len(self.seen) == count:
                break
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def asked_since(start):
    """The operator's requests but for watches and leader election, by verb and resource."""
    end = audit_end()
    total = collections.Counter()
    with open(AUDIT, "rb") as log:
        log.seek(start)
        for line in log.read(end - start).splitlines():
            event = json.loads(line)
            what = event.get("objectRef", {})
            elects = what.get("resource") == "leases" and what.get("name", "").endswith("-leader-election")
            if event.get("userAgent", "").startswith("windlass/") and event["verb"] != "watch" and not elects:
                resource = "/".join(part for part in (what.get("resource", event["requestURI"].split("?")[0]), what.get("subresource")) if part)
                total[f"{event['verb']} {resource}"] += 1
    return total


def row(what, ours, peer="–", goal="–"):
    print(f"| {what} | {ours} | {peer} | {goal} |", flush=True)


def measure(count):
    namespace = f"{NAMESPACE}-{count}"
    kubectl("create", "namespace", namespace)
    publish(namespace)
    objects = {"apiVersion": "v1", "kind": "List", "items": [release(number, f"{INTERVAL}s") for number in range(count)]}
    kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(objects))
    settle()
    small = count == 100
    peer = PEER if small else collections.defaultdict(lambda: "–")
    print(f"| {count} HelmReleases | windlass | helm-controller 1.6 | goal |\n| --- | ---: | ---: | ---: |")
    start = audit_end()
    ready = Watch(namespace, "{.status.conditions[?(@.type=='Ready')].reason}", "InstallSucceeded")
    operator = HelmReleaseOperator(namespace)
    ready.wait(count)
    took, cpu = time.perf_counter() - operator.started, operator.cpu()
    settle()
    total = asked_since(start)
    row("all ready, the start of the process included", f"{took:.2f} s, {cpu:.1f} s CPU", peer["ready"], "3 s" if small else "–")
    row("API requests for each", f"{sum(total.values()) / count:.1f}", peer["requests"], "10")
    memory = operator.memory()
    row("resident memory then", f"{memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB", peer["memory"], {100: "40 MiB", 1000: "70 MiB"}.get(count, "–"))

    start, before = audit_end(), operator.reconciles()
    time.sleep(2 * INTERVAL)
    passes = operator.reconciles() - before
    elapsed = asked_since(start)
    row(f"interval elapsed, nothing to do: API requests in {passes:.0f} passes", f"{sum(elapsed.values())}", f"{peer['elapsed requests']} each", "0")

    start = audit_end()
    handled = Watch(namespace, "{.status.lastHandledReconcileAt}", "x")
    began = time.perf_counter()
    kubectl("annotate", "helmrelease", "--all", "-n", namespace, "reconcile.fluxcd.io/requestedAt=x")
    handled.wait(count)
    took = time.perf_counter() - began
    asked = asked_since(start)
    row("asked to reconcile, nothing to do, kubectl included", f"{took:.2f} s", peer["asked"])
    row("API requests for each: the status", f"{sum(asked.values()) / count:.1f}", peer["asked requests"])
    memory = operator.memory()
    row("resident memory then", f"{memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB", peer["memory"], {100: "40 MiB", 1000: "70 MiB"}.get(count, "–"))
    cpu = operator.cpu()
    time.sleep(INTERVAL)
    row(f"passes at the interval: processor over {INTERVAL} s", f"{(operator.cpu() - cpu) / INTERVAL:.1%} of a core", "–")
    operator.stop()
    print("\nRequests for an installed release:\n")
    for what, number in total.most_common():
        print(f"- {what}: {number / count:.2f}")
    print(f"\nWhile intervals elapsed: {dict(elapsed)}; asked: {dict(asked)}\n")


if __name__ == "__main__":
    print(f"machine: {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
    kubectl("apply", "--server-side", "-f", "-", input=subprocess.run([WINDLASS, "crds", "flux"], check=True, capture_output=True, text=True).stdout)
    kubectl("wait", "--for=condition=Established", "crd/helmreleases.helm.toolkit.fluxcd.io", "crd/ocirepositories.source.toolkit.fluxcd.io")
    for count in map(int, sys.argv[1:] or (100, 1000)):
        measure(count)
