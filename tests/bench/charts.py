#!/usr/bin/env python3
"""Measures objects of a chart's kind, as operator-sdk's Helm operator reconciles them; `make bench-charts` runs this inside a control plane, with the
binary of WINDLASS or the release build.

Prints Markdown, for 100 and 1,000 objects (numbers as arguments choose others) of a chart of three objects: the time until all are deployed, the API
requests of the operator for each, resident memory, how long a deleted Service is away, and the requests of an idle minute. The Helm operator's figures
are those that were measured with helm-operator-plugins, 8 objects at a time, on a machine of the same kind; it cannot run in the same run.
"""
import collections, json, os, pathlib, subprocess, sys, tempfile, time

from helmreleases import TEMPLATES, Watch, asked_since, row
from run import WINDLASS, Operator, kubectl
from scale import audit_end, settle

PEER = {"ready": "15.1 s", "requests": "25", "memory": "159 MiB", "back": "47 s", "idle": "1,671"}
GOALS = {100: {"ready": "4 s", "requests": "10", "memory": "45 MiB"}, 1000: {"ready": "35 s", "memory": "90 MiB"}}
GROUP, PLURAL = "bench.example.com", "demos"
IDLE = 60


def definition():
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": {
        "group": GROUP, "scope": "Namespaced", "names": {"kind": "Demo", "listKind": "DemoList", "plural": PLURAL, "singular": "demo"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                      "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}}]}}


def watches(folder):
    """operator-sdk's file, and the chart of three objects."""
    chart = pathlib.Path(folder) / "demo"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: demo\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text("replicaCount: 1\n")
    for name, text in TEMPLATES.items():
        (chart / "templates" / name).write_text(text)
    file = pathlib.Path(folder) / "watches.yaml"
    file.write_text(json.dumps([{"group": GROUP, "version": "v1", "kind": "Demo", "chart": str(chart)}]))
    return file


class ChartOperator(Operator):
    def __init__(self, file, namespace):
        self.scratch = tempfile.mkdtemp()
        self.address = os.path.join(self.scratch, "address")
        self.log = open(os.path.join(self.scratch, "log"), "w")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [WINDLASS, "operator", "--controllers=charts", "--watches-file", str(file), "--max-concurrent-reconciles", "8", "--namespace", namespace,
             "--listen-address", "127.0.0.1", "--listen-port", "0", "--address-file", self.address],
            stderr=self.log, env=os.environ | {"WATCH_NAMESPACE": namespace})


class Objects(Watch):
    """How many objects of the kind show something."""
    def __init__(self, namespace, shown, wanted):
        self.seen, self.wanted = set(), wanted
        self.process = subprocess.Popen(
            ["kubectl", "get", f"{PLURAL}.{GROUP}", "-n", namespace, "--watch", "--chunk-size=0", "-o", f"jsonpath={{.metadata.name}} {shown}{{'\\n'}}"],
            stdout=subprocess.PIPE, text=True)


def service_is_back(namespace, name):
    """Seconds that a deleted Service is away."""
    uid = lambda: kubectl("get", "service", name, "-n", namespace, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
    old, began = uid(), time.perf_counter()
    kubectl("delete", "service", name, "-n", namespace)
    while uid() in ("", old):
        time.sleep(0.02)
    return time.perf_counter() - began


def measure(file, count):
    namespace = f"bench-charts-{count}"
    kubectl("create", "namespace", namespace)
    items = [{"apiVersion": f"{GROUP}/v1", "kind": "Demo", "metadata": {"name": f"d{number:04d}"}, "spec": {"replicaCount": 1}} for number in range(count)]
    kubectl("create", "-n", namespace, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    settle()
    peer = PEER if count == 100 else collections.defaultdict(lambda: "–")
    goal = collections.defaultdict(lambda: "–", GOALS.get(count, {}))
    print(f"| {count} objects of a chart of three objects | windlass | Helm operator | goal |\n| --- | ---: | ---: | ---: |")
    start = audit_end()
    deployed = Objects(namespace, "{.status.conditions[?(@.type=='Deployed')].status}", "True")
    operator = ChartOperator(file, namespace)
    deployed.wait(count)
    took, cpu = time.perf_counter() - operator.started, operator.cpu()
    row("all deployed, the start of the process included", f"{took:.2f} s, {cpu:.1f} s CPU", peer["ready"], goal["ready"])
    ready = Objects(namespace, "{.status.conditions[?(@.type=='Ready')].status}", "True")
    ready.wait(count)
    row("all ready", f"{time.perf_counter() - operator.started:.2f} s")
    settle()
    total = asked_since(start)
    row("API requests for each", f"{sum(total.values()) / count:.1f}", peer["requests"], goal["requests"])
    memory = operator.memory()
    row("resident memory then", f"{memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB", peer["memory"], goal["memory"])
    row("a deleted Service is back, kubectl included", f"{service_is_back(namespace, 'd0000-demo'):.2f} s", peer["back"], "1 s")
    settle()
    start = audit_end()
    time.sleep(IDLE)
    row(f"API requests in {IDLE} idle seconds", f"{sum(asked_since(start).values())}", peer["idle"], "0")
    operator.stop()
    print("\nRequests for a deployed object:\n")
    for what, number in total.most_common():
        print(f"- {what}: {number / count:.2f}")
    print()


if __name__ == "__main__":
    print(f"machine: {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
    kubectl("apply", "--server-side", "-f", "-", input=json.dumps(definition()))
    kubectl("wait", "--for=condition=Established", f"crd/{PLURAL}.{GROUP}")
    with tempfile.TemporaryDirectory() as folder:
        file = watches(folder)
        for count in map(int, sys.argv[1:] or (100, 1000)):
            measure(file, count)
