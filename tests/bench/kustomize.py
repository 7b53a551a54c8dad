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


def measured(command, cwd, discard=False):
    """Milliseconds, MiB at the peak, and the output."""
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        child = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        took = (time.monotonic() - begin) * 1000
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        digest = hashlib.sha256(out.read()).hexdigest()
    return took, usage.ru_maxrss / 1024, digest if child.returncode == 0 else "failed"


def row(name, theirs, ours):
    times = [statistics.median(t for t, _ in runs) for runs in (theirs, ours)]
    memory = [max(m for _, m in runs) for runs in (theirs, ours)]
    ratio, share = times[0] / times[1], memory[1] / memory[0]
    goal = GOALS.get(name.split(" ")[0], 0)
    missed = [text for failed, text in ((ratio < goal, f"not {goal} times faster"), (share > 0.5, "more than half of the memory")) if failed]
    print(f"| {name} | {times[0]:.1f} | {times[1]:.1f} | {ratio:.0f} | {memory[0]:.0f} | {memory[1]:.0f} | {share:.2f} | "
          f"{'; '.join(missed) or 'reached'} |", flush=True)
    return times[1]


def compare(name, directory, runs):
    theirs, ours = [], []
    for _ in range(runs):
        a, b = measured([KUSTOMIZE, "build", "."], directory), measured([WINDLASS, "build", "."], directory)
        assert a[2] == b[2] != "failed", f"{name}: the outputs differ"
        theirs.append(a[:2])
        ours.append(b[:2])
    return row(name, theirs, ours)


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
        total = {}
        for tool in (KUSTOMIZE, WINDLASS):
            runs = [measured([tool, "build", *args], root) for root, args in cases]
            total[tool] = [(sum(t for t, _, _ in runs), max(m for _, m, _ in runs))]
        row(f"corpus of {len(cases)} cases", total[KUSTOMIZE], total[WINDLASS])


def main():
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
