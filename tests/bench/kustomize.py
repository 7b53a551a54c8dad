#!/usr/bin/env python3
"""Measures `windlass build` beside kustomize's own program in one run; `make bench-kustomize` runs it. KUSTOMIZE and WINDLASS name the
binaries. Arguments choose cases: small, tree, 1000, 4000, corpus; none is all.

Prints Markdown: milliseconds and peak MiB of each, in turns, in the median, and the ratios. Each pair of outputs must be equal.
"""
import hashlib, json, os, pathlib, statistics, subprocess, sys, tarfile, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared/kustomize"
WINDLASS = os.environ.get("WINDLASS", str(ROOT / "target/release/windlass"))
KUSTOMIZE = os.environ["KUSTOMIZE"]
# How much faster each must be at least.
GOALS = {"small": 3, "tree": 10, "1000": 10, "4000": 100, "corpus": 10}

DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app: {name}}}
spec:
  replicas: 1
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      serviceAccountName: {name}
      containers:
      - name: main
        image: example.com/app:1.{n}
        envFrom:
        - configMapRef: {{name: {name}-settings}}
        ports:
        - containerPort: 80
      volumes:
      - name: settings
        configMap: {{name: {name}-settings}}
"""
CONFIG = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}-settings
data:
  number: "{n}"
  text: |
    a line of text
    another line {n}
"""
SERVICE = """apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  selector: {{app: {name}}}
  ports: [{{port: 80}}]
"""
ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}}}\n"
ROLE = """apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}}}
rules: [{{apiGroups: [""], resources: [configmaps], resourceNames: [{name}-settings], verbs: [get]}}]
"""
BINDING = """apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {name}}}]
"""
PATCH = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  template:
    spec:
      containers:
      - name: main
        resources: {{limits: {{cpu: 1}}}}
"""


def write(directory, files):
    for path, text in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def small(directory):
    write(directory, {
        "base/web.yaml": "---\n".join(t.format(name="web", n=1) for t in (DEPLOYMENT, CONFIG, SERVICE)),
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "patch.yaml": PATCH.format(name="web"),
        "kustomization.yaml": "resources: [base]\nnamePrefix: prod-\npatches: [{path: patch.yaml}]\nimages: [{name: example.com/app, newTag: '2'}]\n",
    })


def tree(directory):
    """25 applications of 8 files, as in a repository of manifests."""
    apps = [f"app-{n}" for n in range(25)]
    for n, name in enumerate(apps):
        parts = {"deployment": DEPLOYMENT, "config": CONFIG, "service": SERVICE, "account": ACCOUNT, "role": ROLE, "binding": BINDING}
        files = {f"{name}/base/{part}.yaml": text.format(name=name, n=n) for part, text in parts.items()}
        files[f"{name}/base/kustomization.yaml"] = f"resources: [{', '.join(f'{part}.yaml' for part in parts)}]\n"
        files[f"{name}/kustomization.yaml"] = (
            f"resources: [base]\nnamespace: team\ncommonLabels: {{part-of: platform, component: {name}}}\n"
            f"configMapGenerator: [{{name: {name}-parameters, literals: [number={n}]}}]\n"
            f"images: [{{name: example.com/app, newTag: '{n}.1'}}]\npatches:\n- patch: |-\n"
            + "".join(f"    {line}\n" for line in PATCH.format(name=name).splitlines()))
        write(directory, files)
    write(directory, {"kustomization.yaml": f"resources: [{', '.join(apps)}]\ncommonLabels: {{platform: one}}\n"})


def objects(count):
    """ConfigMaps and Deployments that refer to them."""
    def make(directory):
        parts = (DEPLOYMENT.replace("      serviceAccountName: {name}\n", ""), CONFIG)
        text = "---\n".join(part.format(name=f"app-{n}", n=n) for n in range(count // 2) for part in parts)
        write(directory, {
            "base/all.yaml": text,
            "base/kustomization.yaml": "resources: [all.yaml]\n",
            "kustomization.yaml": "resources: [base]\nnamePrefix: x-\nnamespace: prod\ncommonLabels: {team: a}\n",
        })
    return make


def measured(command, cwd):
    """Milliseconds, and the output's digest."""
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        failed = subprocess.call(command, cwd=cwd, stdout=out, stderr=subprocess.DEVNULL)
        took = (time.monotonic() - begin) * 1000
        out.seek(0)
        return took, "failed" if failed else hashlib.sha256(out.read()).hexdigest()


def peak(command, cwd):
    """MiB at the peak, by GNU time: a child of this process would count its memory."""
    with tempfile.NamedTemporaryFile() as note:
        subprocess.call(["/usr/bin/time", "-o", note.name, "-f", "%M", *command], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return int(note.read().split()[-1]) / 1024


def row(name, times, memory):
    ratio, share = times[0] / times[1], memory[1] / memory[0]
    goal = GOALS.get(name.split(" ")[0], 0)
    missed = [text for failed, text in ((ratio < goal, f"not {goal} times faster"), (share > 0.5, "more than half of the memory")) if failed]
    print(f"| {name} | {times[0]:.1f} | {times[1]:.1f} | {ratio:.0f} | {memory[0]:.0f} | {memory[1]:.0f} | {share:.2f} | "
          f"{'; '.join(missed) or 'reached'} |", flush=True)
    return times[1]


def compare(name, directory, runs):
    tools, times = (KUSTOMIZE, WINDLASS), ([], [])
    for _ in range(runs):
        digests = set()
        for tool, list in zip(tools, times):
            took, digest = measured([tool, "build", "."], directory)
            list.append(took)
            digests.add(digest)
        assert len(digests) == 1 and "failed" not in digests, f"{name}: the outputs differ"
    memory = [peak([tool, "build", "."], directory) for tool in tools]
    return row(name, [statistics.median(list) for list in times], memory)


def corpus():
    if not CORPUS.is_dir():
        print("\nno kustomize corpus at ../shared/kustomize: skipped")
        return
    with tempfile.TemporaryDirectory() as tmp:
        cases = []
        for file in sorted(CORPUS.glob("cases/*/*/cmd.json")):
            case = json.loads(file.read_text())
            root = pathlib.Path(tmp) / pathlib.Path(case["tree"]).name.removesuffix(".tgz")
            if not root.exists():
                with tarfile.open(CORPUS / case["tree"]) as archive:
                    archive.extractall(root, filter="data")
            cases.append((root, [str(root / case["dir"]), *case["flags"]]))
        times, memory = [0, 0], [0, 0]
        for root, args in cases:
            for number, tool in enumerate((KUSTOMIZE, WINDLASS)):
                times[number] += measured([tool, "build", *args], root)[0]
                memory[number] = max(memory[number], peak([tool, "build", *args], root))
        row(f"corpus of {len(cases)} cases", times, memory)


def main():
    try:
        # What else the machine does is none of both.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        print("without a real-time priority", file=sys.stderr)
    chosen = sys.argv[1:] or list(GOALS)
    print("| case | kustomize ms | windlass ms | times faster | kustomize MiB | windlass MiB | of its memory | goal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    took = {}
    for name, make, runs in (("small", small, 21), ("tree of 200 files", tree, 11), ("1000 objects", objects(1000), 3), ("4000 objects", objects(4000), 1)):
        key = name.split(" ")[0]
        if key in chosen:
            with tempfile.TemporaryDirectory() as tmp:
                make(pathlib.Path(tmp))
                took[key] = compare(name, tmp, runs)
    if "corpus" in chosen:
        corpus()
    if {"1000", "4000"} <= took.keys():
        print(f"\nFour times the objects take {took['4000'] / took['1000']:.1f} times the time of windlass.")


main()
