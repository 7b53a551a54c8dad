#!/usr/bin/env python3
"""Runs the cases of fixtures/helm-controller/cases.json with Flux's helm-controller, and writes what each ends with.

record.py HELM_CONTROLLER WINDLASS CASES RESULTS, on the cluster of KUBECONFIG. Windlass only prints the CustomResourceDefinitions.
"""
import base64, gzip, hashlib, http.server, io, json, os, re, subprocess, sys, tarfile, tempfile, threading, time

CONTROLLER, WINDLASS, CASES, RESULTS = sys.argv[1:5]
TEMPLATES = os.path.join(os.path.dirname(CASES), "chart")
ARTIFACTS = {}
LIMIT = 60


def kubectl(*arguments, text=None, check=True):
    done = subprocess.run(["kubectl", *arguments], input=text, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"kubectl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def get(kind, namespace, *more):
    text = kubectl("get", kind, "-n", namespace, "-o", "json", "--ignore-not-found", *more)
    return json.loads(text) if text else {}


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ARTIFACTS.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


def package(version):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        files = {"Chart.yaml": f"apiVersion: v2\nname: demo\nversion: {version}\n".encode()}
        for folder, _, names in os.walk(TEMPLATES):
            for name in names:
                path = os.path.join(folder, name)
                files[os.path.relpath(path, TEMPLATES)] = open(path, "rb").read()
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo("demo/" + path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def settled(release, token):
    """The pass over this generation is over, and no other follows at once."""
    status = release.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", [])}
    ready = conditions.get("Ready", {})
    if status.get("lastHandledReconcileAt") != token and "lastAttemptedGeneration" not in status:
        return False
    reconciling = conditions.get("Reconciling", {})
    if reconciling and not reconciling["message"].startswith("retrying after"):
        return ready.get("reason") in ("ChartMutateError",)
    return ready.get("observedGeneration") == release["metadata"]["generation"] and ready["status"] != "Unknown"


def main():
    cases = json.load(open(CASES))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubectl("apply", "--server-side", "-f", "-", text=subprocess.run([WINDLASS, "crds", "flux"], capture_output=True, text=True, check=True).stdout)
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    kubectl("create", "namespace", "flux-system", check=False)
    log = open(os.path.join(tempfile.gettempdir(), "helm-controller.log"), "w")
    controller = subprocess.Popen(
        [CONTROLLER, "--watch-all-namespaces", "--events-addr=", "--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--concurrent=8"],
        env={**os.environ, "RUNTIME_NAMESPACE": "flux-system"}, stdout=log, stderr=log)
    results = {}
    try:
        threads = [threading.Thread(target=lambda case=case: results.__setitem__(case["name"], run(case, server.server_port))) for case in cases]
        for at in range(0, len(threads), 8):
            for thread in threads[at:at + 8]:
                thread.start()
            for thread in threads[at:at + 8]:
                thread.join()
    finally:
        controller.terminate()
        controller.wait()
    missing = [case["name"] for case in cases if case["name"] not in results]
    if missing:
        raise SystemExit(f"without a result: {missing}")
    with open(RESULTS, "w") as out:
        json.dump({case["name"]: results[case["name"]] for case in cases}, out, indent=1, sort_keys=True)
        out.write("\n")


def run(case, port):
    namespace, target = "hc-" + case["name"], "hc-" + case["name"] + "-target"
    namespace, target = namespace[:60], target[:63].rstrip("-")
    for one in (namespace, target):
        kubectl("create", "namespace", one)
    ends = []
    for number, step in enumerate(case["steps"]):
        if "chart" in step:
            body = package(step["chart"]["version"])
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            path = "/" + digest[7:] + ".tgz"
            ARTIFACTS[path] = body
            source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository", "metadata": {"name": "demo"},
                      "spec": {"url": "oci://registry/demo", "interval": "1h"}}
            kubectl("apply", "-n", namespace, "-f", "-", text=json.dumps(source))
            status = {"observedGeneration": 1, "artifact": {
                "url": f"http://127.0.0.1:{port}{path}", "digest": digest, "path": path[1:], "lastUpdateTime": "2026-01-01T00:00:00Z",
                "revision": step.get("revision", step["chart"]["version"] + "@sha256:" + "0" * 64)}}
            kubectl("patch", "ocirepository", "demo", "-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        token = f"step-{number}"
        spec = {"chartRef": {"kind": "OCIRepository", "name": "demo"}, "interval": "1h", "timeout": "20s", **step["spec"]}
        spec = json.loads(json.dumps(spec).replace("TARGET", target))
        release = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "web"}, "spec": spec}
        kubectl("apply", "-n", namespace, "-f", "-", text=json.dumps(release))
        deadline, last, since = time.time() + LIMIT, None, time.time()
        while time.time() < deadline:
            live = get("helmrelease/web", namespace)
            if live.get("status") != last:
                last, since = live.get("status"), time.time()
            if settled(live, token) and time.time() - since > 3:
                break
            time.sleep(0.3)
        ends.append(observed(namespace, target))
    if case.get("keep"):
        keep(namespace, target)
    kubectl("delete", "helmrelease", "web", "-n", namespace, "--timeout=60s")
    left = [item["kind"] + "/" + item["metadata"]["name"] for place in (namespace, target) for item in
            get("configmap,secret,pod", place).get("items", []) if item["metadata"]["name"] != "kube-root-ca.crt"]
    return {"steps": ends, "left": left}


def keep(namespace, target):
    """Everything of a case as it is in the cluster, to be taken over elsewhere."""
    names = {path: base64.b64encode(body).decode() for path, body in ARTIFACTS.items()}
    source = get("ocirepository/demo", namespace)
    whole = {
        "namespaces": [namespace, target], "release": get("helmrelease/web", namespace), "source": source,
        "package": names["/" + source["status"]["artifact"]["path"]],
        "secrets": get("secret", namespace, "-l", "owner=helm")["items"],
        "objects": get("configmap", target, "-l", "app.kubernetes.io/managed-by=Helm", "--show-managed-fields")["items"],
    }
    with open(os.path.join(os.path.dirname(CASES), "adopted.json"), "w") as out:
        json.dump(whole, out, indent=1, sort_keys=True)
        out.write("\n")


def plain(value, names):
    """Without times, digests of times, and with the names of the namespaces that the test has."""
    text = json.dumps(value)
    for name, word in names:
        text = re.sub(rf"(?<![a-z0-9-]){re.escape(name)}(?![a-z0-9-])", word, text)
    return json.loads(text)


def observed(namespace, target):
    release = get("helmrelease/web", namespace)
    status = release.get("status", {})
    secrets = get("secret", namespace, "-l", "owner=helm").get("items", [])
    records = []
    for secret in secrets:
        record = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
        records.append({"version": record["version"], "namespace": record["namespace"], "status": record["info"]["status"],
                        "applyMethod": record.get("apply_method", ""), "chartVersion": record["chart"]["metadata"]["version"],
                        "config": record.get("config") or {}})
    objects = {place: [item["kind"] + "/" + item["metadata"]["name"] for item in get("configmap,pod", name).get("items", [])
                       if item["metadata"]["name"] != "kube-root-ca.crt"] for place, name in (("NAMESPACE", namespace), ("TARGET", target))}
    times = ("firstDeployed", "lastDeployed", "deleted", "digest")
    history = [{key: value for key, value in shot.items() if key not in times} for shot in status.get("history", [])]
    for shot in history:
        if "testHooks" in shot:
            shot["testHooks"] = {name: hook.get("phase", "") for name, hook in shot["testHooks"].items()}
    conditions = {c["type"]: f"{c['status']} {c['reason']}" for c in status.get("conditions", [])}
    counters = {key: status.get(key, 0) for key in ("failures", "installFailures", "upgradeFailures")}
    fields = ("lastAttemptedReleaseAction", "lastAttemptedRevision", "lastAttemptedRevisionDigest", "lastAttemptedConfigDigest", "storageNamespace")
    answer = {
        "conditions": conditions, "counters": counters, "history": history, "records": sorted(records, key=lambda r: r["version"]),
        "objects": objects, "observed": status.get("observedGeneration") == release["metadata"]["generation"],
        "inventory": sorted(entry["id"] for entry in status.get("inventory", {}).get("entries", [])),
        **{key: status.get(key, "") for key in fields},
    }
    return plain(answer, ((target, "TARGET"), (namespace, "NAMESPACE")))


main()
