#!/usr/bin/env python3
"""Measures rollouts when configuration changes; `make bench-reload` runs this inside a control plane, with the binary of WINDLASS or the release
build.

Prints Markdown, for 300 Deployments on 100 ConfigMaps (two numbers as arguments choose others): the time and the API requests until all are recorded,
resident memory, the requests of an idle minute, of an edit of one ConfigMap and of all of them, and of a restart. Deployments have no replicas: what
is measured is the operator.
"""
import json, os, re, subprocess, sys, tempfile, time

from helmreleases import Watch, asked_since
from run import WINDLASS, Operator, kubectl
from scale import audit_end, settle

NAMESPACE = "bench-reload"
RECORD = "{.metadata.annotations.windlass\\.dev/configuration-digests}"
ROLLED = "{.spec.template.metadata.annotations.windlass\\.dev/reloaded-from}"
IDLE = 60


class ReloadOperator(Operator):
    def __init__(self):
        self.scratch = tempfile.mkdtemp()
        self.address = os.path.join(self.scratch, "address")
        self.log = open(os.path.join(self.scratch, "log"), "w")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [WINDLASS, "operator", "--controllers=reload", f"--reload-namespaces={NAMESPACE}", "--auto-reload-all", "--namespace", NAMESPACE,
             "--listen-address", "127.0.0.1", "--listen-port", "0", "--address-file", self.address], stderr=self.log)


class Deployments(Watch):
    """How many Deployments show something that matches."""
    def __init__(self, shown, wanted):
        self.seen, self.wanted = set(), re.compile(wanted)
        self.process = subprocess.Popen(
            ["kubectl", "get", "deployments", "-n", NAMESPACE, "--watch", "--chunk-size=0", "-o", f"jsonpath={{.metadata.name}} {shown}{{'\\n'}}"],
            stdout=subprocess.PIPE, text=True)

    def wait(self, count):
        for line in self.process.stdout:
            name, _, shown = line.strip().partition(" ")
            if self.wanted.search(shown):
                self.seen.add(name)
            if len(self.seen) == count:
                break
        self.process.terminate()
        self.process.wait()


def config_map(number, value):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number:03d}"}, "data": {"value": value}}


def deployment(number, config_maps):
    labels, name = {"app": f"w{number:03d}"}, f"c{number % config_maps:03d}"
    container = {"name": "main", "image": "x", "envFrom": [{"configMapRef": {"name": name}}]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"w{number:03d}"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}}


def apply(objects):
    kubectl("apply", "--server-side", "--force-conflicts", "-n", NAMESPACE, "-f", "-",
            input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def row(what, took, asked, more=""):
    print(f"| {what} | {took} | {sum(asked.values())} | {dict(asked.most_common())} {more}|", flush=True)


def measure(workloads, config_maps):
    kubectl("create", "namespace", NAMESPACE)
    apply(config_map(number, "0") for number in range(config_maps))
    apply(deployment(number, config_maps) for number in range(workloads))
    settle()
    print(f"| {workloads} Deployments on {config_maps} ConfigMaps | time | API requests | of these |\n| --- | ---: | ---: | --- |")
    start, recorded = audit_end(), Deployments(RECORD, "c")
    operator = ReloadOperator()
    recorded.wait(workloads)
    took = time.perf_counter() - operator.started
    settle()
    row("all recorded, the start of the process included", f"{took:.2f} s", asked_since(start))
    memory = operator.memory()
    print(f"| resident memory then | {memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB | | |")
    start, cpu = audit_end(), operator.cpu()
    time.sleep(IDLE)
    row("an idle minute", f"{(operator.cpu() - cpu) / IDLE:.2%} of a core", asked_since(start))

    start, rolled, began = audit_end(), Deployments(ROLLED, r"c000\b"), time.perf_counter()
    apply([config_map(0, "1")])
    rolled.wait(-(-workloads // config_maps))
    took = time.perf_counter() - began
    settle()
    row("one ConfigMap is edited, a second of waiting included", f"{took:.2f} s", asked_since(start))

    start, rolled, began = audit_end(), Deployments(ROLLED, r"c(?!000\b)\d"), time.perf_counter()
    apply(config_map(number, "2") for number in range(1, config_maps))
    rolled.wait(workloads - len([number for number in range(workloads) if number % config_maps == 0]))
    took = time.perf_counter() - began
    settle()
    row("all others are edited", f"{took:.2f} s", asked_since(start))
    memory = operator.memory()
    print(f"| resident memory then | {memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB | | |")
    operator.stop()

    start = audit_end()
    operator = ReloadOperator()
    operator.converged()
    settle()
    row("a restart", "–", asked_since(start))
    operator.stop()


if __name__ == "__main__":
    print(f"machine: {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
    measure(*map(int, sys.argv[1:] or (300, 100)))
