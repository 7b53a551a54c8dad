#!/usr/bin/env python3
"""Measures an operator with the HelmReleases of many clusters: `make bench-clusters` runs this inside a control plane, with the binary of WINDLASS
or the release build.

500 HelmReleases (another number as the first argument; 0: none) of a chart with a library of 700 kB, each with values of its own, from a repository on
loopback; every second one has a Pod that no node takes, so that its release waits for as long as its timeout. Prints Markdown: the time until the
others are ready, resident memory while half of them wait, after a minute, after a restart, error lines of the log, and how long a stop takes.
Before, where the chart corpus is at hand, the memory of an operator with one HelmRelease of its argo-cd: at the start, at the peak of the install and of
six edits, and a minute after them.
"""
import functools, http.server, io, json, os, random, re, signal, subprocess, sys, tarfile, tempfile, threading, time

from helmreleases import Watch, row
from run import SHARED, WINDLASS, Operator, kubectl

NAMESPACE = "bench-clusters"
WORDS = [f"{a}{b}" for a in ("contain", "volum", "secret", "persist", "rout", "env", "prob", "secur", "annot", "label") for b in ("er", "es", "ing", "Ref", "ation", "Name")]
MAIN = """{{ include "library.workload" . }}
"""
WORKLOAD = """{{ define "library.workload" }}
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  replicas: 1
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec:
      {{- with .Values.nodeSelector }}
      nodeSelector: {{ toJson . }}
      {{- end }}
      containers: [{name: main, image: "{{ .Values.image }}", env: [{{ range $k, $v := .Values.env }}{name: {{ $k }}, value: {{ $v | quote }}},{{ end }}]}]
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}"}
spec: {selector: {app: "{{ .Release.Name }}"}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {{ toJson .Values.config }}
{{ end }}
"""


def filler(size):
    """Templates that nothing includes, about as compressible as real ones."""
    chosen, text = random.Random(1), []
    while sum(map(len, text)) < size:
        lines = "\n".join(f"  {chosen.choice(WORDS)}{chosen.randrange(999)}: {{{{ .Values.{chosen.choice(WORDS)} | quote }}}}" for _ in range(40))
        text.append(f'{{{{ define "library.part{len(text)}" }}}}\n{lines}\n{{{{ end }}}}\n')
    return "".join(text)


def package():
    files = {"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: library, version: 1.0.0}]\n",
             "app/values.yaml": "image: web:1\nenv: {}\nconfig: {}\n", "app/templates/main.yaml": MAIN,
             "app/charts/library/Chart.yaml": "apiVersion: v2\nname: library\ntype: library\nversion: 1.0.0\n",
             "app/charts/library/templates/_workload.tpl": WORKLOAD, "app/charts/library/templates/_parts.tpl": filler(700_000)}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def serve(name, content):
    """The URL of a repository with a packaged chart."""
    directory = tempfile.mkdtemp()
    with open(f"{directory}/{name}", "wb") as archive:
        archive.write(content)
    subprocess.run([WINDLASS, "repo", "index", directory], check=True, capture_output=True)
    handler = functools.partial(type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None}), directory=directory)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def release(number):
    config = {f"key{i}": f"value {number * 31 + i} of release {number}" for i in range(20)}
    values = {"env": {f"SETTING_{i}": str(number + i) for i in range(10)}, "config": config}
    if number % 2:
        values["nodeSelector"] = {"there-is": "no-such-node"}
    return {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": f"app{number:04d}"},
            "spec": {"chart": {"spec": {"chart": "app", "sourceRef": {"kind": "HelmRepository", "name": "apps"}}}, "interval": "30m", "timeout": "20m", "values": values}}


class ClustersOperator(Operator):
    def __init__(self, namespace=NAMESPACE):
        self.scratch = tempfile.mkdtemp()
        self.log = open(f"{self.scratch}/log", "w+")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [WINDLASS, "operator", "--controllers=helmreleases", "--sources=own", "--notifications=flux", "--allow-local-sources", "--namespace", namespace,
             "--helm-controller-namespace", namespace, "--listen-address", "127.0.0.1", "--listen-port", "0", "--storage-path", f"{self.scratch}/artifacts"],
            stderr=self.log, env={**os.environ, "NO_COLOR": "1"})

    def lines(self, level):
        with open(self.log.name) as log:
            return sum(1 for line in log if re.search(rf"\b{level}\b", line))

    def stopped(self):
        """Stops it; seconds."""
        began = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return time.perf_counter() - began


def main(count):
    kubectl("create", "namespace", NAMESPACE)
    items = [{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "apps"}, "spec": {"url": serve("app-1.0.0.tgz", package()), "interval": "1h"}}]
    items += [release(number) for number in range(count)]
    kubectl("create", "-n", NAMESPACE, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    print(f"| {count} HelmReleases of a chart with a library of 700 kB, half of which wait | windlass | Flux | goal |\n| --- | ---: | ---: | ---: |")
    ready = Watch(NAMESPACE, "{.status.conditions[?(@.type=='Ready')].status}", "True")
    operator = ClustersOperator()
    ready.wait((count + 1) // 2)
    row("those that can are ready", f"{time.perf_counter() - operator.started:.0f} s, {operator.cpu():.0f} s CPU", "7 of 210 in 430 s")
    time.sleep(30)
    memory = operator.memory()
    row("resident memory while the others wait", f"{memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB", "250 MiB", "150 MiB")
    before = operator.lines("WARN|ERROR")
    time.sleep(60)
    row("a minute later", f"{operator.memory()['VmRSS']:.0f} MiB")
    row("lines of warnings and errors: until then, and in that minute", f"{before}, {operator.lines('WARN|ERROR') - before}")
    row("stopped while they wait", f"{operator.stopped():.1f} s", goal="5 s")
    operator = ClustersOperator()
    time.sleep(60)
    memory = operator.memory()
    row("resident a minute after a restart", f"{memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB", "251 MiB")
    operator.stopped()


def large_chart():
    """One HelmRelease of a chart that renders a lot."""
    packages = sorted(SHARED.glob("corpus/charts/argo-cd-*.tgz"))
    if not packages:
        return print("no chart corpus at ../shared/corpus: argo-cd skipped")
    namespace = f"{NAMESPACE}-large"
    kubectl("create", "namespace", namespace)
    print("\n| one HelmRelease of argo-cd | windlass | goal |\n| --- | ---: | ---: |")
    operator = ClustersOperator(namespace)
    time.sleep(15)
    start = operator.memory()["VmRSS"]
    url = serve(packages[-1].name, packages[-1].read_bytes())
    item = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "argo-cd"},
            "spec": {"chart": {"spec": {"chart": "argo-cd", "sourceRef": {"kind": "HelmRepository", "name": "argo"}}}, "interval": "30m",
                     "install": {"disableWait": True}, "upgrade": {"disableWait": True}, "values": {"redisSecretInit": {"enabled": False}}}}
    source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "argo"}, "spec": {"url": url, "interval": "1h"}}
    kubectl("create", "-n", namespace, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [source, item]}))
    kubectl("wait", "helmrelease/argo-cd", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
    installed = operator.memory()
    for edit in range(6):
        patch = json.dumps({"spec": {"values": {"global": {"additionalLabels": {"edit": str(edit)}}}}})
        kubectl("patch", "helmrelease", "argo-cd", "-n", namespace, "--type=merge", "-p", patch)
        while kubectl("get", "helmrelease", "argo-cd", "-n", namespace, "-o", "jsonpath={.status.observedGeneration}") != str(edit + 2):
            time.sleep(0.3)
    edited = operator.memory()
    time.sleep(60)
    rows = [("at the start", start, ""), ("once installed", installed["VmRSS"], "80"), ("after six edits", edited["VmRSS"], "80"), ("the peak", edited["VmHWM"], "80"),
            ("a minute later", operator.memory()["VmRSS"], f"{start + 10:.0f}")]
    for name, value, goal in rows:
        print(f"| {name} | {value:.0f} MiB | {goal and goal + ' MiB'} |")
    operator.stopped()
    quiet = {"capture_output": True, "check": True}
    subprocess.run(["kubectl", "patch", "helmrelease", "argo-cd", "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'], **quiet)
    subprocess.run(["kubectl", "delete", "namespace", namespace, "--wait=false"], **quiet)
    print()


if __name__ == "__main__":
    print(f"machine: {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
    kubectl("apply", "--server-side", "-f", "-", input=subprocess.run([WINDLASS, "crds", "flux"], check=True, capture_output=True, text=True).stdout)
    kubectl("wait", "--for=condition=Established", "crd/helmreleases.helm.toolkit.fluxcd.io", "crd/helmrepositories.source.toolkit.fluxcd.io")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    large_chart()
    if count:
        main(count)
