#!/usr/bin/env python3
"""Measures windlass beside Helm in one run; `make bench` runs this inside a control plane, with the binary of WINDLASS or the release build.

Prints Markdown: whole-process `template` on charts of 10, 100 and 1,000 generated templates and, where the corpus is at hand,
on the cases of ../shared/corpus/BENCH.md, as ratios; and thirty small modules: cold converge, restart with nothing to do,
time until a deleted Service is back, resident memory and API requests, beside addon-operator's figures and ours to reach.
"""
import json, os, pathlib, re, shutil, signal, statistics, subprocess, sys, tempfile, time, urllib.error, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
WINDLASS = pathlib.Path(os.environ.get("WINDLASS", ROOT / "target/release/windlass"))
HELM = shutil.which("helm")
TEMPLATE = ("template {release} {chart} -n {namespace} --kube-version {kubeVersion} -f {values} [-a {apiVersion}] "
            "[--include-crds] [--is-upgrade]")


def kubectl(*args, **more):
    return subprocess.run(["kubectl", *args], check=True, capture_output=True, text=True, **more).stdout


def rows(tool, runs, cases):
    """Milliseconds and peak MiB of a tool on cases of the corpus, by name."""
    out = subprocess.run([sys.executable, SHARED / "corpus/bench.py", "--runs", str(runs), "--cmd", f"{tool} {TEMPLATE}", *cases],
                         check=True, capture_output=True, text=True).stdout
    table = {}
    for line in out.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 6 and "/" in cells[0]:
            table[cells[0]] = (float(cells[1]), float(cells[5]) if cells[5] != "-" else float("nan"))
    return table


def templates(rounds):
    """Both tools in turns on each case, three runs at a time: a machine that is slow for a while is so for both."""
    if not (SHARED / "corpus/bench.py").exists():
        print("no chart corpus at ../shared/corpus: template figures skipped\n")
        return
    print("| case | helm 4 ms | windlass ms | times faster | helm 4 MiB | windlass MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    ratios = []
    for case in rows(WINDLASS, 1, []):
        helm, ours = zip(*[(rows(HELM, 3, [case])[case], rows(WINDLASS, 3, [case])[case]) for _ in range(rounds)])
        ratios.append(statistics.median(h[0] / max(w[0], 0.5) for h, w in zip(helm, ours)))
        ms = [statistics.median(t[0] for t in tool) for tool in (helm, ours)]
        mib = [max(t[1] for t in tool) for tool in (helm, ours)]
        print(f"| {case} | {ms[0]:.0f} | {ms[1]:.0f} | {ratios[-1]:.1f} | {mib[0]:.0f} | {mib[1]:.0f} |", flush=True)
    print(f"\nmedian: {statistics.median(ratios):.1f} times faster\n")


TEMPLATE_FILE = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "made.name" . }}-%(n)d
  labels: {{- include "made.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas | default 1 }}
  selector:
    matchLabels: {{- include "made.labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "made.labels" . | nindent 8 }}
    spec:
      containers:
        {{- range $name, $c := .Values.containers }}
        - name: {{ $name }}
          image: "{{ $c.repository }}:{{ $c.tag | default $.Chart.AppVersion }}"
          {{- with $c.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
        {{- end }}
"""
HELPERS = """{{- define "made.name" -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{- end }}
{{- define "made.labels" -}}
app.kubernetes.io/name: {{ include "made.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
"""
VALUES = """replicas: 2
containers:
  web: {repository: nginx, tag: "1.29", resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m}}}
  side: {repository: busybox}
"""


def scaling(runs):
    """Charts that differ in the number of their templates: the time of each, and what ten times as many cost."""
    print("| templates | helm 4 ms | windlass ms | times faster | helm 4 µs more for each | windlass µs more for each |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    before = None
    for count in (10, 100, 1000):
        with tempfile.TemporaryDirectory() as scratch:
            chart = pathlib.Path(scratch)
            (chart / "templates").mkdir()
            (chart / "Chart.yaml").write_text("apiVersion: v2\nname: made\nversion: 1.0.0\nappVersion: '1'\n")
            (chart / "values.yaml").write_text(VALUES)
            (chart / "templates/_helpers.tpl").write_text(HELPERS)
            for n in range(count):
                (chart / f"templates/made-{n:04d}.yaml").write_text(TEMPLATE_FILE % {"n": n})
            now, texts = [], []
            for tool in (HELM, WINDLASS):
                times = []
                for run in range(runs + 2):
                    with tempfile.TemporaryFile() as out:
                        t = time.perf_counter()
                        subprocess.run([tool, "template", "x", scratch], check=True, stdout=out)
                        times.append(time.perf_counter() - t)
                        out.seek(0)
                        text = out.read()
                now.append(statistics.median(times[2:]) * 1000)
                texts.append(text)
            if texts[0] != texts[1]:
                sys.exit(f"{count} templates: windlass prints something else than helm")
        each = ["–", "–"] if before is None else [f"{(b - a) * 1000 / (count - before[0]):.0f}" for a, b in zip(before[1], now)]
        print(f"| {count} | {now[0]:.1f} | {now[1]:.1f} | {now[0] / now[1]:.1f} | {each[0]} | {each[1]} |")
        before = (count, now)
    print()


def measured(args, **more):
    """Wall seconds, processor seconds and peak MiB of a command.

    `time` starts it: the peak of a child of this script would begin with the script's own memory.
    """
    with tempfile.NamedTemporaryFile("r") as usage:
        start = time.perf_counter()
        done = subprocess.run(["/usr/bin/time", "-f", "%U %S %M", "-o", usage.name, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **more)
        wall = time.perf_counter() - start
        if done.returncode:
            sys.exit(f"{' '.join(map(str, args))}: {done.stdout.decode()}")
        user, system, peak = usage.read().split()[-3:]
    return wall, float(user) + float(system), int(peak) / 1024


def requests():
    """API requests answered so far, by verb, as the API server counts them."""
    total = {}
    for line in kubectl("get", "--raw", "/metrics").splitlines():
        m = re.match(r'apiserver_request_total\{.*verb="([A-Z]+)".*\} ([0-9.e+]+)$', line)
        if m:
            total[m[1]] = total.get(m[1], 0) + float(m[2])
    return total


class Operator:
    def __init__(self, modules, namespace):
        self.scratch = tempfile.mkdtemp()
        self.address = os.path.join(self.scratch, "address")
        self.log = open(os.path.join(self.scratch, "log"), "w")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [WINDLASS, "operator", "--namespace", namespace, "--modules-dir", modules, "--listen-address", "127.0.0.1",
             "--listen-port", "0", "--address-file", self.address], stderr=self.log)

    def converged(self):
        while True:
            if self.process.poll() is not None:
                sys.exit("the operator ended: " + open(self.log.name).read())
            try:
                with open(self.address) as f:
                    urllib.request.urlopen(f"http://{f.read()}/readyz").read()
                return time.perf_counter() - self.started
            except (OSError, ValueError, urllib.error.URLError):
                time.sleep(0.005)

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return {k: int(re.search(rf"{k}:\s+(\d+)", status)[1]) / 1024 for k in ("VmRSS", "VmHWM")}

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait() != 0:
            sys.exit("the operator did not end cleanly: " + open(self.log.name).read())
        shutil.rmtree(self.scratch)


def difference(before):
    after = requests()
    return {v: int(n - before.get(v, 0)) for v, n in sorted(after.items()) if n > before.get(v, 0)}


# Of addon-operator 1.24, with 30 of these modules, where helm 4 needed so many ms for `template` of a case of the corpus. How fast it
# gives back a deleted object is its poll's doing, not the machine's.
PEER = {"cold": 16.2, "restart": 12.2, "deleted": 285, "memory": 138}
GOAL = {"cold": 2, "restart": 0.5, "deleted": 1, "edit": 0.5, "memory": 30}
FIXED = ("deleted", "memory")
YARDSTICK = ("metrics-server/defaults", 46)


def beside(key, ours, unit, scale):
    """Cells of the peer's figure and of the goal as they are on a machine so many times slower, and the ratios to ours."""
    cells = []
    for figures, name in ((PEER, "times better"), (GOAL, "of the goal")):
        if key not in figures:
            cells.append("– | –")
            continue
        figure = figures[key] * (1 if key in FIXED else scale)
        ratio = f"{figure / ours:.1f}" if figures is PEER else f"{ours / figure * 100:.0f} %{'' if ours <= figure else ', missed'}"
        cells.append(f"{figure:.3g} {unit} | {ratio}")
    return " | ".join(cells)


def yardstick(chart):
    """Milliseconds that helm 4 needs here for the yardstick's case, and what it was; a module of the run where there is no corpus."""
    case, _ = YARDSTICK
    if (SHARED / "corpus/bench.py").exists():
        return rows(HELM, 10, [case])[case][0], f"corpus case {case}"
    times = []
    for _ in range(10):
        t = time.perf_counter()
        subprocess.run([HELM, "template", "x", chart], check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - t) * 1000)
    return statistics.median(times), "one of the modules"


def modules(count):
    tool = SHARED / "tools/bench-modules.py"
    if not tool.exists():
        print("no module generator at ../shared/tools: module figures skipped")
        return
    out = tempfile.mkdtemp()
    subprocess.run([sys.executable, tool, HELM, out, str(count)], check=True)
    namespace = "bench"
    kubectl("create", "namespace", namespace)
    now, what = yardstick(f"{out}/001-mod001")
    scale = now / YARDSTICK[1]
    print(f"`helm template` of {what}: {now:.0f} ms, where the peer was measured {YARDSTICK[1]} ms: its times, and those to reach, are "
          f"taken times {scale:.2f}.{'' if count == 30 else ' They are of 30 modules.'}\n")
    print(f"| {count} small modules | windlass | addon-operator 1.24 | times better | to reach | of that |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    before = requests()
    operator = Operator(out, namespace)
    took = operator.converged()
    print(f"| cold start to converged | {took:.2f} s, {operator.cpu():.2f} s CPU | {beside('cold', took, 's', scale)} |")
    print(f"| API requests of that, the control plane's own included | {difference(before)} | | | | |")
    operator.stop()

    before = requests()
    operator = Operator(out, namespace)
    took = operator.converged()
    print(f"| restarted with nothing to do | {took:.2f} s, {operator.cpu():.2f} s CPU | {beside('restart', took, 's', scale)} |")
    print(f"| API requests of that | {difference(before)} | | | | |")
    times = []
    for i in range(1, 11):
        name = f"mod{i:03d}"
        uid = kubectl("get", "service", name, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
        kubectl("delete", "service", name, "-n", namespace, "--wait=false")
        t = time.perf_counter()
        while kubectl("get", "service", name, "-n", namespace, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}") in ("", uid):
            pass
        times.append(time.perf_counter() - t)
    took = statistics.median(times)
    print(f"| a deleted Service is back, one kubectl included | median {took:.2f} s, worst {max(times):.2f} s | "
          f"{beside('deleted', took, 's', scale)} |")
    t = time.perf_counter()
    kubectl("create", "configmap", "addon-operator", "-n", namespace, "--from-literal=mod001=replicaCount: 2")
    while kubectl("get", "deployment", "mod001", "-n", namespace, "-o", "jsonpath={.spec.replicas}") != "2":
        pass
    took = time.perf_counter() - t
    print(f"| ConfigMap edit to applied, two kubectls included | {took:.2f} s | {beside('edit', took, 's', scale)} |")
    memory = operator.memory()
    print(f"| resident memory | {memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB | "
          f"{beside('memory', memory['VmRSS'], 'MiB', scale)} |")
    cpu = operator.cpu()
    time.sleep(10)
    print(f"| idle | {(operator.cpu() - cpu) * 10:.1f} % of a core over 10 s | | | | |")
    operator.stop()
    shutil.rmtree(out)


if __name__ == "__main__":
    print(f"machine: {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
    scaling(int(os.environ.get("BENCH_RUNS", "10")))
    templates(int(os.environ.get("BENCH_RUNS", "10")))
    modules(int(os.environ.get("BENCH_MODULES", "30")))
