#!/usr/bin/env python3
"""Measures large numbers; `make scale` runs this inside a control plane, with the binary of WINDLASS or the release build.

Prints Markdown: one release of 5,000 objects beside Helm 4 (wall and processor time, peak memory, API requests); 100 releases of
5 objects, one process each, beside Helm 4; and an operator that keeps 1,000 of them, which Helm has nothing for: converge, and what
it costs while nothing happens.
"""
import os, pathlib, re, shutil, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WINDLASS = os.environ.get("WINDLASS") or str(ROOT / "target/release/windlass")
HELM = shutil.which("helm")
OBJECTS = int(os.environ.get("OBJECTS", 5000))
RELEASES = int(os.environ.get("RELEASES", 1000))
IDLE = int(os.environ.get("IDLE", 60))
EACH = int(os.environ.get("EACH", 100))

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


def kubectl(*args):
    return subprocess.run(["kubectl", *args], check=True, capture_output=True, text=True).stdout


def requests():
    """API requests answered so far but for watches, those of the control plane itself included."""
    total = 0
    for line in kubectl("get", "--raw", "/metrics").splitlines():
        m = re.match(r'apiserver_request_total\{.*verb="([A-Z]+)".*\} ([0-9.e+]+)$', line)
        if m and m[1] != "WATCH":
            total += int(float(m[2]))
    return total


def run(*args):
    """Wall seconds, processor seconds, peak MiB and API requests of a command."""
    before, start = requests(), time.perf_counter()
    child = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    text = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(args)}: {text}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, requests() - before


def many():
    print(f"One release of {OBJECTS} ConfigMaps:\n")
    print("| | windlass s | CPU s | MiB | requests | helm 4 s | CPU s | MiB | requests |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as scratch:
        chart = pathlib.Path(scratch)
        (chart / "templates").mkdir()
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: many\nversion: 1.0.0\n")
        (chart / "values.yaml").write_text(f"count: {OBJECTS}\nvalue: a\n")
        (chart / "templates/all.yaml").write_text(MANY)
        for namespace in ("many-w", "many-h"):
            kubectl("create", "namespace", namespace)
        steps = [("install", ["install", "r", scratch]), ("upgrade, nothing changed", ["upgrade", "r", scratch]),
                 ("upgrade of all", ["upgrade", "r", scratch, "--set", "value=b"]), ("uninstall", ["uninstall", "r"])]
        for name, args in steps:
            cells = []
            for tool, namespace in ((WINDLASS, "many-w"), (HELM, "many-h")):
                wall, cpu, mib, asked = run(tool, *args, "-n", namespace)
                cells.append(f"{wall:.1f} | {cpu:.1f} | {mib:.0f} | {asked}")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print()


def cpu(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def get(address, path):
    import urllib.error, urllib.request
    try:
        return urllib.request.urlopen(f"http://{address}{path}").status
    except (urllib.error.URLError, ConnectionError):
        return 0


def operate(namespace, modules):
    """Starts an operator; answers with it, and the seconds, processor seconds and requests until it has converged."""
    before, start = requests(), time.perf_counter()
    with tempfile.NamedTemporaryFile() as file:
        child = subprocess.Popen([WINDLASS, "operator", "--namespace", namespace, "--modules-dir", modules, "--listen-address",
                                  "127.0.0.1", "--listen-port", "0", "--address-file", file.name, "--log-level", "error"])
        while get(pathlib.Path(file.name).read_text() or "127.0.0.1:1", "/readyz") != 200:
            time.sleep(0.05)
    return child, time.perf_counter() - start, cpu(child.pid), requests() - before


def releases():
    print(f"An operator with {RELEASES} releases of 5 objects:\n")
    with tempfile.TemporaryDirectory() as scratch:
        flags = []
        for n in range(RELEASES):
            module = pathlib.Path(scratch) / f"001-r{n:04d}"
            (module / "templates").mkdir(parents=True)
            (module / "Chart.yaml").write_text(f"apiVersion: v2\nname: r{n:04d}\nversion: 1.0.0\n")
            (module / "templates/all.yaml").write_text(FIVE.replace("NAME", f"r{n:04d}"))
            flags.append(f"r{n:04d}Enabled: true\n")
        (pathlib.Path(scratch) / "values.yaml").write_text("".join(flags))
        kubectl("create", "namespace", "releases")
        print("| | s | CPU s | MiB | requests |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for name in ("first converge", "restart with nothing to do"):
            child, wall, busy, asked = operate("releases", scratch)
            print(f"| {name} | {wall:.1f} | {busy:.1f} | {memory(child.pid):.0f} | {asked} |", flush=True)
            if name.startswith("restart"):
                time.sleep(5)
                before, asked = cpu(child.pid), requests()
                time.sleep(IDLE)
                used = cpu(child.pid) - before
                print(f"| idle for {IDLE} s | {IDLE} | {used:.2f} | {memory(child.pid):.0f} | {requests() - asked} |")
                print(f"\nidle: {100 * used / IDLE:.2f} % of a core, {memory(child.pid) * 1024 / RELEASES:.0f} KiB a release")
            child.terminate()
            child.wait()


def each():
    """The same releases by a process each: what a loop over `helm upgrade --install` costs."""
    print(f"{EACH} releases of 5 objects, a process each, a release in the mean:\n")
    print("| | windlass s | CPU s | MiB | requests | helm 4 s | CPU s | MiB | requests |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as scratch:
        chart = pathlib.Path(scratch)
        (chart / "templates").mkdir()
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: five\nversion: 1.0.0\n")
        (chart / "templates/all.yaml").write_text(FIVE.replace("NAME", "{{ .Release.Name }}"))
        for namespace in ("each-w", "each-h"):
            kubectl("create", "namespace", namespace)
        for name in ("install", "the same again"):
            cells = []
            for tool, namespace in ((WINDLASS, "each-w"), (HELM, "each-h")):
                before, start, figures = requests(), time.perf_counter(), []
                for n in range(EACH):
                    child = subprocess.Popen([tool, "upgrade", "--install", f"r{n:04d}", scratch, "-n", namespace],
                                             stdout=subprocess.DEVNULL)
                    _, status, usage = os.wait4(child.pid, 0)
                    if status:
                        sys.exit(f"{tool} failed")
                    figures.append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
                wall, asked = time.perf_counter() - start, requests() - before
                busy, peak = sum(f[0] for f in figures), max(f[1] for f in figures)
                cells.append(f"{wall / EACH:.3f} | {busy / EACH:.3f} | {peak:.0f} | {asked / EACH:.0f}")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print()


many()
each()
releases()
