#!/usr/bin/env python3
"""Runs the cases of fixtures/reloader/cases.json with Reloader itself, and writes the objects, the edits and which workloads it
rolls out.

record.py RELOADER CASES RESULTS, on the cluster of KUBECONFIG. RELOADER: the program, built from its source. A case is a workload and one object; the
object is edited once Reloader runs. `OBJECT` in an annotation stands for the object's name.
"""
import json, os, subprocess, sys, tempfile, time

RELOADER, CASES, RESULTS = sys.argv[1:4]
FLAGS = {
    "default": [],
    "auto-reload-all": ["--auto-reload-all=true"],
    "on-create-and-delete": ["--reload-on-create=true", "--reload-on-delete=true"],
}
# Nothing happens any more after so many seconds.
QUIET = 8
LIMIT = 120


def kubectl(*arguments, text=None):
    done = subprocess.run(["kubectl", *arguments], input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kubectl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def apply(namespace, objects):
    kubectl("apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def states(namespace):
    """What says of a workload that it was rolled out: its Pod template; of a Job its UID; of a CronJob the Jobs of it."""
    items = json.loads(kubectl("get", "deployments,statefulsets,daemonsets,jobs,cronjobs", "-n", namespace, "-o", "json"))["items"]
    found, jobs = {}, {}
    for item in items:
        name, kind = item["metadata"]["name"], item["kind"]
        if kind == "Job":
            for owner in item["metadata"].get("ownerReferences", []):
                jobs[owner["name"]] = jobs.get(owner["name"], 0) + 1
            found[name] = item["metadata"]["uid"]
        elif kind != "CronJob":
            found[name] = json.dumps(item["spec"]["template"], sort_keys=True)
    found |= {item["metadata"]["name"]: jobs.get(item["metadata"]["name"], 0) for item in items if item["kind"] == "CronJob"}
    return found


def main():
    cases = json.load(open(CASES))
    results = {}
    for group, flags in FLAGS.items():
        results |= run(group, flags, [case for case in cases if case["flags"] == group])
    with open(RESULTS, "w") as out:
        lines = (f"{json.dumps(case['name'])}: {json.dumps(results[case['name']])}" for case in cases)
        out.write("{\n" + ",\n".join(lines) + "\n}\n")


def run(group, flags, cases):
    namespace = "reloader-" + group
    kubectl("create", "namespace", namespace)
    apply(namespace, [made for case in cases for made in objects(case)])
    log = open(os.path.join(tempfile.gettempdir(), f"reloader-{group}.log"), "w")
    environment = {**os.environ, "KUBERNETES_NAMESPACE": namespace, "POD_NAME": "reloader", "POD_NAMESPACE": namespace}
    process = subprocess.Popen([RELOADER, "--reload-strategy=annotations", *flags], env=environment, stdout=log, stderr=log)
    try:
        time.sleep(QUIET)
        before = states(namespace)
        for case in cases:
            for edit in edits(case):
                carry_out(namespace, edit)
        last, since, began = before, time.time(), time.time()
        while time.time() - since < QUIET and time.time() - began < LIMIT:
            time.sleep(0.5)
            now = states(namespace)
            if now != last:
                last, since = now, time.time()
    finally:
        process.terminate()
        process.wait()
    rolled = lambda case: last.get(case["name"]) != before.get(case["name"])
    return {case["name"]: {"flags": group, "objects": objects(case), "edits": edits(case), "rolled_out": rolled(case)} for case in cases}


def configuration(case, data):
    kind = case.get("object", "ConfigMap")
    field = "data" if kind == "ConfigMap" else "stringData"
    metadata = {"name": "of-" + case["name"], "annotations": case.get("object_annotations", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, field: data}


def objects(case):
    """The workload, and its object unless that comes later."""
    name, spec = "of-" + case["name"], pod(case)
    named = lambda annotations: {key: value.replace("OBJECT", name) for key, value in annotations.items()}
    labels, kind = {"app": case["name"]}, case.get("kind", "Deployment")
    metadata = {"labels": labels, "annotations": named(case.get("template_annotations", {}))}
    template = {"metadata": metadata, "spec": spec}
    if kind in ("Job", "CronJob"):
        spec["restartPolicy"] = "Never"
    body = {"CronJob": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}, "Job": {"template": template}}.get(
        kind, {"selector": {"matchLabels": labels}, "template": template})
    version = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    workload = {"apiVersion": version, "kind": kind, "metadata": {"name": case["name"], "annotations": named(case["annotations"])}, "spec": body}
    return [workload] if case.get("edit") == "create" else [configuration(case, {"A": "0", "B": "0"}), workload]


def pod(case):
    """The Pod of a case, which uses its object as the case says."""
    name, secret, uses = "of-" + case["name"], case.get("object") == "Secret", case["uses"]
    reference, container = {"name": name}, {"name": "main", "image": "web:1"}
    source = {"secretRef" if secret else "configMapRef": reference}
    volume = {"secret": {"secretName": name}} if secret else {"configMap": reference}
    spec = {"containers": [container]}
    if uses in ("envFrom", "optional"):
        reference |= {"optional": True} if uses == "optional" else {}
        container["envFrom"] = [source]
    elif uses == "init":
        spec["initContainers"] = [{"name": "first", "image": "web:1", "envFrom": [source]}]
    elif uses == "env":
        key = {"name": name, "key": "A"}
        container["env"] = [{"name": "A", "valueFrom": {"secretKeyRef" if secret else "configMapKeyRef": key}}]
    elif uses == "projected":
        volume = {"projected": {"sources": [{"secret" if secret else "configMap": reference}]}}
    if uses in ("volume", "projected", "subPath", "unmounted"):
        spec["volumes"] = [{"name": "v", **volume}]
        if uses != "unmounted":
            container["volumeMounts"] = [{"name": "v", "mountPath": "/v", **({"subPath": "A"} if uses == "subPath" else {})}]
    return spec


def edits(case):
    """The change of the object: what is deleted, applied or patched, in turn."""
    kind, name, what = case.get("object", "ConfigMap").lower(), "of-" + case["name"], case.get("edit", "data")
    field = "data" if kind == "configmap" else "stringData"
    patches = {
        "data": {field: {"A": "1"}}, "add": {field: {"C": "1"}}, "remove": {field: {"B": None}}, "binaryData": {"binaryData": {"D": "AAE="}},
        "labels": {"metadata": {"labels": {"edited": "true"}}}, "annotations": {"metadata": {"annotations": {"edited": "true"}}},
    }
    made = [{"delete": f"{kind}/{name}"}] if what in ("delete", "recreate") else []
    made += [{"apply": configuration(case, {"A": "1", "B": "0"})}] if what in ("create", "recreate") else []
    return made or [{"patch": f"{kind}/{name}", "with": patches[what]}]


def carry_out(namespace, edit):
    if "delete" in edit:
        kubectl("delete", edit["delete"], "-n", namespace)
    elif "apply" in edit:
        apply(namespace, [edit["apply"]])
    else:
        kubectl("patch", edit["patch"], "-n", namespace, "--type=merge", "-p", json.dumps(edit["with"]))


main()
