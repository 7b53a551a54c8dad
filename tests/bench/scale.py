#!/usr/bin/env python3
"""Measures releases; `make scale` runs this inside a control plane, with the binary of WINDLASS or the release build.

Prints Markdown: releases of 102 and of 5,000 objects beside Helm 4 (wall and processor time, peak memory, API requests of the command itself); 100
releases of 5 objects, one process each, beside Helm 4, and what asks for them; and an operator that keeps 1,000 of them, which Helm has nothing for:
converge, and what it costs while nothing happens. Names of parts as arguments choose among them.
"""
import json, os, pathlib, statistics, sys, tempfile, time

import run
from run import HELM, WINDLASS, Operator, kubectl

OBJECTS = int(os.environ.get("OBJECTS", 5000))
RELEASES = int(os.environ.get("RELEASES", 1000))
IDLE = int(os.environ.get("IDLE", 60))
EACH = int(os.environ.get("EACH", 100))
RUNS = int(os.environ.get("BENCH_RUNS", 7))
AUDIT = pathlib.Path(os.environ["KUBECONFIG"]).parent / "audit.log"

MANY = """{{- range $i, $_ := until (int .Values.count) }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ $i }}
data:
  value: {{ $.Values.value | quote }}
{{- end }}
"""
# A test counts the requests for it, too.
MIXED = (pathlib.Path(__file__).parent / "mixed.yaml").read_text()
FIVE = """apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME}
data: {a: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: NAME}
stringData: {a: "1"}
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 0
  selector: {matchLabels: {app: NAME}}
  template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: main, image: x}]}}
"""


def chart(folder, name, template, values=""):
    """A chart of one template."""
    folder = pathlib.Path(folder)
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n")
    (folder / "values.yaml").write_text(values)
    (folder / "templates/all.yaml").write_text(template)


def requests():
    """API requests answered so far but for watches, those of the control plane itself included."""
    return int(sum(n for verb, n in run.requests().items() if verb != "WATCH"))


def audit_end():
    """Where the control plane's audit log ends, with all that was answered so far in it: a request of our own shows that."""
    audit_end.asked = getattr(audit_end, "asked", 0) + 1
    barrier = f"/livez/ping?bench={os.getpid()}-{audit_end.asked}"
    kubectl("get", "--raw", barrier)
    deadline = time.monotonic() + 30
    position = getattr(audit_end, "position", 0)
    while time.monotonic() < deadline:
        with open(AUDIT, "rb") as log:
            log.seek(position)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                position += len(line)
                if barrier.encode() in line:
                    audit_end.position = position
                    return position
        time.sleep(0.01)
    sys.exit(f"{AUDIT}: the last request did not come")


def settle():
    """Waits until the controllers have done what the last command gave them to do: half a second in which nobody asks anything."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        start = audit_end()
        time.sleep(0.5)
        end = audit_end()
        with open(AUDIT, "rb") as log:
            log.seek(start)
            events = map(json.loads, log.read(end - start).splitlines())
            # Leaders renew their leases for ever.
            if all(event.get("objectRef", {}).get("resource") in (None, "leases") for event in events):
                return
    sys.exit("the control plane does not come to rest")


def process(*args):
    """Wall seconds, processor seconds, peak MiB and API requests of a command: its own, by its user agent."""
    start = audit_end()
    figures = run.measured(args)
    end = audit_end()
    with open(AUDIT, "rb") as log:
        log.seek(start)
        lines = log.read(end - start).splitlines()
    agent = "Helm/" if args[0] == HELM else "windlass/"
    return *figures, sum(json.loads(line).get("userAgent", "").startswith(agent) for line in lines)


def lifecycle(what, namespace, runs, template, values):
    """Install, two upgrades and uninstall of one release, Helm and ours in turns, each on a control plane at rest; the median of the runs."""
    print(f"One release of {what}, median of {runs}:\n")
    print("| | windlass | helm 4 | times faster | of its memory |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = f"{scratch}/chart"
        chart(folder, "many", template, values)
        tools = ((WINDLASS, f"{namespace}-w"), (HELM, f"{namespace}-h"))
        for _, own in tools:
            kubectl("create", "namespace", own)
        steps = [("install", ["install", "r", folder]), ("upgrade to the same, new revision", ["upgrade", "r", folder]),
                 ("upgrade of all", ["upgrade", "r", folder, "--set", "value=b"]), ("uninstall", ["uninstall", "r"])]
        figures = {name: ([], []) for name, _ in steps}
        for _ in range(runs):
            for name, args in steps:
                for tool, (program, own) in enumerate(tools):
                    settle()
                    figures[name][tool].append(process(program, *args, "-n", own))
        for name, both in figures.items():
            ours, helm = ([statistics.median(column) for column in zip(*measured)] for measured in both)
            cells = [f"{wall:.2f} s, {cpu:.2f} s CPU, {mib:.0f} MiB, {asked:.0f} requests" for wall, cpu, mib, asked in (ours, helm)]
            print(f"| {name} | {' | '.join(cells)} | {helm[0] / ours[0]:.1f} | {ours[2] / helm[2]:.2f} |", flush=True)
    print()


def medium():
    lifecycle("102 objects (34 each of ConfigMap, Service, Deployment)", "medium", RUNS, MIXED, "value: a\n")


def many():
    lifecycle(f"{OBJECTS} ConfigMaps", "many", 1, MANY, f"count: {OBJECTS}\nvalue: a\n")


def each():
    """The same releases by a process each: what a loop over `helm upgrade --install` costs."""
    print(f"{EACH} releases of 5 objects, a process each, a release in the mean:\n")
    print("| | windlass | helm 4 | times faster |")
    print("| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = f"{scratch}/chart"
        chart(folder, "five", FIVE.replace("NAME", "{{ .Release.Name }}"))
        tools = ((WINDLASS, "each-w"), (HELM, "each-h"))
        for _, own in tools:
            kubectl("create", "namespace", own)
        for name in ("install", "the same again"):
            cells, walls = [], []
            for program, own in tools:
                figures = [process(program, "upgrade", "--install", f"r{n:04d}", folder, "-n", own) for n in range(EACH)]
                wall, cpu, mib, asked = zip(*figures)
                walls.append(sum(wall))
                cells.append(f"{sum(wall) / EACH:.3f} s, {sum(cpu) / EACH:.3f} s CPU, {max(mib):.0f} MiB, {sum(asked) / EACH:.0f} requests")
            print(f"| {name} | {' | '.join(cells)} | {walls[1] / walls[0]:.1f} |", flush=True)
        for args in (["list", "--max", "0"], ["list", "--short"], ["status", "r0000"], ["history", "r0000"]):
            figures = [[process(program, *args, "-n", own) for _ in range(5)] for program, own in tools]
            both = [[statistics.median(column) for column in zip(*measured)] for measured in figures]
            cells = [f"{wall:.3f} s, {cpu:.3f} s CPU, {mib:.0f} MiB, {asked:.0f} requests" for wall, cpu, mib, asked in both]
            print(f"| `{' '.join(args)}` | {' | '.join(cells)} | {both[1][0] / both[0][0]:.1f} |", flush=True)
    print()


def releases():
    print(f"An operator with {RELEASES} releases of 5 objects:\n")
    with tempfile.TemporaryDirectory() as scratch:
        flags = []
        for name in (f"r{n:04d}" for n in range(RELEASES)):
            chart(f"{scratch}/001-{name}", name, FIVE.replace("NAME", name))
            flags.append(f"{name}Enabled: true\n")
        (pathlib.Path(scratch) / "values.yaml").write_text("".join(flags))
        kubectl("create", "namespace", "releases")
        print("| | |\n| --- | --- |")
        for name in ("first converge", "restart with nothing to do"):
            before = requests()
            operator = Operator(scratch, "releases")
            wall = operator.converged()
            print(f"| {name} | {wall:.1f} s, {operator.cpu():.1f} s CPU, {operator.memory()['VmRSS']:.0f} MiB, "
                  f"{requests() - before} requests |", flush=True)
            if name.startswith("restart"):
                # What modules are doing is told at leisure, also what the first one had not told yet.
                settle()
                cpu, before = operator.cpu(), requests()
                time.sleep(IDLE)
                used, memory = operator.cpu() - cpu, operator.memory()["VmRSS"]
                print(f"| idle for {IDLE} s | {100 * used / IDLE:.2f} % of a core, {requests() - before} requests, "
                      f"{memory * 1024 / RELEASES:.0f} KiB of memory a release |")
            operator.stop()


if __name__ == "__main__":
    parts = {"medium": medium, "many": many, "each": each, "releases": releases}
    for part in sys.argv[1:] or parts:
        parts[part]()
