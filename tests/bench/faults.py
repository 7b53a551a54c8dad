#!/usr/bin/env python3
"""What an operator does while something outside is wrong, and afterwards: `make faults` runs this inside a control plane, with the binary of WINDLASS or
the release build, for helmreleases, helmfiles and modules (or those that are named).

An object for each fault: it is well, then the cause comes for 30 s, then it ends. Prints a line for each: warnings and errors in the log, what Ready
says, and the seconds until it is well again. Exit status 1 if one is never well, if an operator that waits passes more than 15 times in those 30 s, or
if it says nothing of a fault that keeps it from its work. Where the matrix of public reports is at hand (../shared/tools), it runs first.
"""
import base64, functools, http.server, json, os, pathlib, re, signal, ssl, subprocess, sys, tempfile, threading, time

from run import SHARED, WINDLASS, kubectl

CAUSE, LIMIT, HOME = 30, 120, "faults-home"
MAIN = """apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-main", labels: {app: faults}}
data: {x: "1"}
"""


def quiet(*args, **more):
    """kubectl whose failure is no error here: the thing is gone, or there already."""
    return subprocess.run(["kubectl", *args], capture_output=True, text=True, **more).stdout


def apply(*objects):
    kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


CERTIFICATES = """{{ $ca := genCA "faults" 10 }}{{ $valid := genSignedCert "127.0.0.1" (list "127.0.0.1") nil 10 $ca }}
{{- $expired := genSignedCert "127.0.0.1" (list "127.0.0.1") nil -1 $ca }}
made: {ca.pem: {{ b64enc $ca.Cert }}, valid.pem: {{ print $valid.Cert $valid.Key | b64enc }}, expired.pem: {{ print $expired.Cert $expired.Key | b64enc }}}
"""


@functools.cache
def certificates():
    """A directory with ca.pem, and valid.pem and expired.pem of a server on loopback."""
    directory = tempfile.mkdtemp()
    write(f"{directory}/chart/Chart.yaml", "apiVersion: v2\nname: certificates\nversion: 1.0.0\n")
    write(f"{directory}/chart/templates/made.yaml", CERTIFICATES)
    made = subprocess.run([WINDLASS, "template", f"{directory}/chart"], check=True, capture_output=True, text=True).stdout
    for name, text in re.findall(r"(\w+\.pem): ([A-Za-z0-9+/=]+)", made):
        write(f"{directory}/{name}", base64.b64decode(text).decode())
    return directory


class Repository:
    """A chart repository that can answer with a status of one's choice, or show an expired certificate."""
    def __init__(self, tls=False):
        self.status, self.directory, self.tls = 200, tempfile.mkdtemp(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        own = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                if own.status != 200:
                    return self.send_error(own.status)
                super().do_GET()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=self.directory))
        if tls:
            self.show("valid")
            # A resumed session shows no certificate.
            self.tls.options |= ssl.OP_NO_TICKET
            self.tls.num_tickets = 0
            # The handshake is the connection's thread's: one that fails must not end the server.
            server.socket = self.tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http{'s' * tls}://127.0.0.1:{server.server_address[1]}"

    def show(self, certificate):
        """Shows the certificate `valid` or `expired` to new connections."""
        self.tls.load_cert_chain(f"{certificates()}/{certificate}.pem")

    def publish(self, version, extra=""):
        with tempfile.TemporaryDirectory() as chart:
            write(f"{chart}/web/Chart.yaml", f"apiVersion: v2\nname: web\nversion: {version}\n")
            write(f"{chart}/web/templates/main.yaml", MAIN + extra)
            subprocess.run([WINDLASS, "package", f"{chart}/web", "-d", self.directory], check=True, capture_output=True)
        subprocess.run([WINDLASS, "repo", "index", self.directory], check=True, capture_output=True)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def thing_definition(group, conversion):
    version = lambda name, storage: {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    spec = {"group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things", "singular": "thing"}, "versions": [version("v1", False), version("v2", True)],
            "conversion": conversion}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"things.{group}"}, "spec": spec}


DEAD = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:9/convert"}, "conversionReviewVersions": ["v1"]}}


class Fault:
    """One cause. `blocks`: the object cannot be well meanwhile. `of_operator`: it concerns all objects of an operator, which is started for it alone, with
    `environment` and `arguments`. `flaw`: what went wrong besides;
    `note`: what else is worth to know."""
    blocks, needs_repository, extra, tls, of_operator, environment, arguments, flaw, note = True, False, "", False, False, {}, (), "", ""

    def __init__(self, space, repository):
        self.space, self.repository, self.group = space, repository, f"{space}.example.com"

    def prepare(self): pass
    def begin(self): pass
    def end(self): pass
    def tidy(self): pass


class NamespaceGone(Fault):
    """The namespace of the objects is deleted and made again; what was in it is asked for anew."""
    def begin(self):
        quiet("delete", "namespace", self.space, "--timeout=60s")

    def end(self):
        quiet("create", "namespace", self.space)


class ConversionDown(Fault):
    """The conversion webhook of a kind is down."""
    @property
    def extra(self):
        return f"---\napiVersion: {self.group}/v1\nkind: Thing\nmetadata: {{name: thing}}\n"

    def prepare(self):
        apply(thing_definition(self.group, {"strategy": "None"}))
        kubectl("wait", "--for=condition=Established", f"crd/things.{self.group}")

    def begin(self):
        apply(thing_definition(self.group, DEAD))
        quiet("delete", "configmap", "-n", self.space, "-l", "app=faults")

    def end(self):
        apply(thing_definition(self.group, {"strategy": "None"}))

    def tidy(self):
        quiet("delete", "crd", f"things.{self.group}", "--wait=false")


class ServiceDown(Fault):
    """An APIService has no backend: other kinds are not affected."""
    blocks = False

    def begin(self):
        apply({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1.{self.group}"},
               "spec": {"group": self.group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True,
                        "service": {"name": "none", "namespace": self.space}}})
        time.sleep(2)
        quiet("delete", "configmap", "-n", self.space, "-l", "app=faults")

    def end(self):
        quiet("delete", "apiservice", f"v1.{self.group}")


class Answers(Fault):
    """The repository answers with a status other than 200 when a new version is asked for."""
    needs_repository, status, blocks = True, 500, False

    def begin(self):
        self.repository.status = self.status

    def end(self):
        self.repository.status = 200


class Refuses(Answers):
    """The repository asks for a login."""
    status = 401


class CertificateExpired(Fault):
    """The certificate of the repository has expired when a new version is asked for."""
    needs_repository, tls = True, True

    def begin(self):
        self.repository.show("expired")

    def end(self):
        self.repository.show("valid")


class ServerRestarted(Fault):
    """The API server is killed, and is away for ten seconds. What is deleted right after its start is to be seen."""
    of_operator, started = True, None

    def begin(self):
        children = pathlib.Path(f"/proc/{os.getppid()}/task").glob("*/children")
        for pid in [int(pid) for file in children for pid in file.read_text().split()]:
            process = pathlib.Path(f"/proc/{pid}")
            words = process.joinpath("cmdline").read_text().split("\0")[:-1]
            if words and words[0].endswith("kube-apiserver"):
                directory, environment = process.joinpath("cwd").resolve(), dict(entry.split("=", 1) for entry in process.joinpath("environ").read_text().split("\0")[:-1])
                os.kill(pid, signal.SIGKILL)
                time.sleep(10)
                ServerRestarted.started = subprocess.Popen(words, cwd=directory, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                break
        else:
            if not ServerRestarted.started:
                raise SystemExit("there is no kube-apiserver beside this process: run it with control-plane run")
            words = ServerRestarted.started.args
            ServerRestarted.started.kill()
            ServerRestarted.started.wait()
            time.sleep(10)
            ServerRestarted.started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while "ok" not in quiet("get", "--raw", "/readyz"):
            time.sleep(0.2)
        quiet("delete", "configmap", "-n", self.space, "-l", "app=faults")


class TokenExpired(Fault):
    """The operator's token is refused, until its file has a new one."""
    of_operator = True

    def account(self):
        quiet("create", "serviceaccount", "faults-operator", "-n", HOME)

    def write_token(self):
        write(f"{self.directory}/token", kubectl("create", "token", "faults-operator", "-n", HOME))

    def prepare(self):
        self.directory = tempfile.mkdtemp()
        self.account()
        quiet("create", "clusterrolebinding", "faults-operator", "--clusterrole=cluster-admin", f"--serviceaccount={HOME}:faults-operator")
        self.write_token()
        config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        config["users"][0]["user"] = {"tokenFile": f"{self.directory}/token"}
        write(f"{self.directory}/kubeconfig", json.dumps(config))
        self.environment = {"KUBECONFIG": f"{self.directory}/kubeconfig"}

    def begin(self):
        # The account of the same name is another one: tokens of the first are refused, as expired ones are.
        quiet("delete", "serviceaccount", "faults-operator", "-n", HOME)
        self.account()
        # The server remembers for ten seconds that a token was good.
        time.sleep(12)
        quiet("delete", "configmap", "-n", self.space, "-l", "app=faults")

    def end(self):
        self.write_token()
        self.front.restart_ended()

    def tidy(self):
        quiet("delete", "clusterrolebinding", "faults-operator")


class ClockOff(Fault):
    """The clock of the operator is two minutes ahead. A second one, whose clock is two minutes behind, takes over no Lease until the first is killed."""
    of_operator, blocks, arguments = True, False, ("--leader-election",)

    def clock(self, seconds):
        library = f"{self.directory}/clock_offset.so"
        return {"LD_PRELOAD": library, "CLOCK_OFFSET": str(seconds)}

    def prepare(self):
        self.directory = tempfile.mkdtemp()
        source = pathlib.Path(__file__).with_name("clock_offset.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", f"{self.directory}/clock_offset.so", source, "-ldl"], check=True)
        self.environment = self.clock(120)

    def begin(self):
        self.second = self.front.start_operator(self.clock(-120))
        quiet("delete", "configmap", "-n", self.space, "-l", "app=faults")

    def end(self):
        if self.second.lines(r"reconciling|module run", ""):
            self.flaw = "; two operators worked at once"
        self.front.operator.stop(kill=True)
        self.front.operator = self.second
        quiet("delete", "configmap", "-n", self.space, "-l", "app=faults")
        # Not well before the second one works.
        while not self.second.lines(r"reconciling|module run", "") and self.second.process.poll() is None and not self.front.is_well():
            time.sleep(0.2)


FAULTS = {"namespace-gone": NamespaceGone, "conversion-down": ConversionDown, "apiservice-down": ServiceDown, "registry-500": Answers, "registry-401": Refuses,
          "certificate-expired": CertificateExpired, "server-restarted": ServerRestarted, "token-expired": TokenExpired, "clock-off": ClockOff}


class OperatorProcess:
    """An operator with its log."""
    def __init__(self, kind, namespace, *args, environment=None):
        self.scratch = tempfile.mkdtemp()
        self.log = open(f"{self.scratch}/log", "w")
        flux = ["--sources=own", "--notifications=flux", "--helm-controller-namespace", HOME, "--storage-path", f"{self.scratch}/artifacts", "--storage-addr", "127.0.0.1:0"]
        own = [WINDLASS, "operator", f"--controllers={kind}", "--namespace", namespace, "--listen-address", "127.0.0.1", "--listen-port", "0", "--debug-unix-socket",
               f"{self.scratch}/socket", *(flux if kind == "helmreleases" else []), *(["--allow-local-sources"] if kind != "modules" else []), *args]
        environment = {**os.environ, "NO_COLOR": "1", "ADDON_OPERATOR_LISTEN_PORT": "0", "SSL_CERT_FILE": f"{certificates()}/ca.pem", **(environment or {})}
        self.process = subprocess.Popen(own, stdout=self.log, stderr=self.log, env=environment, cwd=self.scratch)

    def lines(self, pattern, about):
        with open(self.log.name, errors="replace") as log:
            return sum(1 for line in log if re.search(pattern, line) and about in line)

    def stop(self, kill=False):
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.process.wait(40)


class Front:
    """An object of a front end for a fault. Each module has an operator of its own, so that none stands in another's queue."""
    def __init__(self, kind, name, operator=None):
        self.kind, self.name, self.space, self.operator = kind, name, f"faults-{kind[:7]}-{name}", operator
        self.repository = Repository(FAULTS[name].tls)
        self.fault = FAULTS[name](self.space, self.repository)
        self.fault.front, self.modules = self, None

    def create(self):
        space = self.space
        if self.kind == "helmreleases":
            apply({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "r", "namespace": space}, "spec": {"url": self.repository.url, "interval": "5s"}},
                  {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "web", "namespace": space},
                   "spec": {"interval": "30s", "driftDetection": {"mode": "enabled"}, "install": {"remediation": {"retries": -1}},
                            "chart": {"spec": {"chart": "web", "interval": "5s", "sourceRef": {"kind": "HelmRepository", "name": "r"}}}}})
        elif self.kind == "helmfiles":
            state = f"repositories: [{{name: r, url: \"{self.repository.url}\"}}]\nreleases: [{{name: web, namespace: {space}, chart: r/web}}]\n"
            apply({"apiVersion": "apps.mumoshu.github.io/v1alpha1", "kind": "Helmfile", "metadata": {"name": "web", "namespace": space}, "spec": {"interval": "10s", "state": state}})

    def prepare(self):
        quiet("create", "namespace", self.space)
        self.fault.prepare()
        if self.kind == "modules":
            self.modules = tempfile.mkdtemp()
            write(f"{self.modules}/001-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
            write(f"{self.modules}/001-web/templates/main.yaml", MAIN + self.fault.extra)
            write(f"{self.modules}/values.yaml", "webEnabled: true\n")
        else:
            self.repository.publish("1.0.0", self.fault.extra)
        if self.kind == "modules" or self.fault.of_operator:
            self.operator = self.start_operator(self.fault.environment)

    def start_operator(self, environment):
        """An operator of this object alone."""
        modules = ["--modules-dir", self.modules] if self.modules else []
        return OperatorProcess(self.kind, self.space if self.modules else HOME, *modules, *self.fault.arguments, environment=environment)

    def is_well(self):
        objects = quiet("get", "configmap", "-n", self.space, "-l", "app=faults", "-o", "name").strip()
        deployed = quiet("get", "secret", "-n", self.space, "-l", "owner=helm,status=deployed", "-o", "name").split()
        return bool(objects) and len(deployed) == 1 and (self.kind == "modules" or self.ready()[0] == "True")

    def ready(self):
        kind = {"helmreleases": "helmreleases.helm.toolkit.fluxcd.io", "helmfiles": "helmfiles.apps.mumoshu.github.io"}.get(self.kind)
        path = "jsonpath={.status.conditions[?(@.type=='Ready')]}"
        found = quiet("get", kind, "web", "-n", self.space, "-o", path) if kind else ""
        condition = json.loads(found) if found.strip() else {}
        return condition.get("status", "–"), condition.get("reason", "")

    def lines(self, pattern, anywhere=False):
        return self.operator.lines(pattern, "" if self.kind == "modules" or anywhere else self.space)

    def restart_ended(self):
        """Does what a kubelet does for an operator that has ended, as one does whose Lease is lost."""
        if self.operator.process.poll() is not None:
            self.fault.note = "; the operator ended and was started again"
            self.operator = self.start_operator(self.fault.environment)

    def await_well(self):
        began = time.time()
        while not self.is_well():
            if time.time() - began > LIMIT:
                return None
            time.sleep(0.5)
        return time.time() - began

    def run(self):
        """The row, and whether all is right."""
        if self.await_well() is None:
            return f"{self.name}: was never well (log: {self.operator.log.name})", False
        noise, passes = r"\b(WARN|ERROR)\b", r"reconciling controller=.helm(releases|files)|module run"
        anywhere = self.fault.of_operator
        before, asked = self.lines(noise, anywhere), self.lines(passes)
        self.fault.begin()
        if self.fault.needs_repository and self.kind != "modules":
            self.repository.publish("1.1.0")
        time.sleep(CAUSE)
        said, passed, ready = self.lines(noise, anywhere) - before, self.lines(passes) - asked, " ".join(self.ready())
        self.fault.end()
        if self.name == "namespace-gone":
            self.create()
        healed = self.await_well()
        silent = self.fault.blocks and said == 0 and self.name != "namespace-gone"
        right = healed is not None and passed <= 15 and not silent and not self.fault.flaw
        after = "never" if healed is None else f"after {healed:.0f} s"
        return f"{self.name}: passes {passed}, log lines {said}, Ready {ready}; well {after}{self.fault.note}{self.fault.flaw}" + ("" if right else f"  SHORT (log: {self.operator.log.name})"), right

    def end(self):
        if not self.fault.of_operator:
            self.fault.end()
        quiet("patch", "helmreleases.helm.toolkit.fluxcd.io,helmfiles.apps.mumoshu.github.io", "--all", "-n", self.space, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        if self.kind == "modules" or self.fault.of_operator:
            self.operator.stop()
        self.fault.tidy()
        quiet("delete", "namespace", self.space, "--timeout=60s")


def leader_killed():
    """Seconds until the second of two operators works after the first was killed."""
    first = OperatorProcess("helmreleases", HOME, "--leader-election")
    front = Front("helmreleases", "registry-500", first)
    front.space = "faults-leader"
    front.prepare()
    front.create()
    assert front.await_well() is not None, first.log.name
    second = OperatorProcess("helmreleases", HOME, "--leader-election")
    time.sleep(4)
    first.stop(kill=True)
    began = time.time()
    kubectl("patch", "helmrelease", "web", "-n", front.space, "--type=merge", "-p", '{"spec":{"values":{"a":1}}}')
    while time.time() - began < LIMIT and quiet("get", "helmrelease", "web", "-n", front.space, "-o", "jsonpath={.status.observedGeneration}") != "2":
        time.sleep(0.2)
    took = time.time() - began
    front.end()
    second.stop()
    return f"leader-killed: an edit is reconciled after {took:.0f} s" + ("" if took <= 22 else "  SHORT"), took <= 22


def main(kinds):
    wrong = 0
    matrix = SHARED / "tools/fault-matrix.py"
    for kind in kinds if matrix.exists() else []:
        for later in ([], ["later"]):
            kubectl_path = subprocess.run(["sh", "-c", "command -v kubectl"], capture_output=True, text=True).stdout.strip()
            wrong += subprocess.run([sys.executable, matrix, WINDLASS, kubectl_path, kind, *later]).returncode
    quiet("create", "namespace", HOME)
    for kind in kinds:
        names = [name for name in FAULTS if not FAULTS[name].of_operator and not (kind == "modules" and FAULTS[name].needs_repository)]
        # It registers the kinds, too.
        operator = OperatorProcess(kind, HOME) if kind != "modules" else None
        fronts = [Front(kind, name, operator) for name in names]
        for front in fronts:
            front.prepare()
        time.sleep(5)
        for front in fronts:
            front.create()
        rows = {}
        threads = [threading.Thread(target=lambda front=front: rows.update({front.name: front.run()})) for front in fronts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for front in fronts:
            text, right = rows.get(front.name, (f"{front.name}: failed", False))
            print(f"{kind} {text}", flush=True)
            wrong += not right
            front.end()
        if operator:
            operator.stop()
        for name in (name for name in FAULTS if FAULTS[name].of_operator):
            front = Front(kind, name)
            front.prepare()
            front.create()
            text, right = front.run()
            print(f"{kind} {text}", flush=True)
            wrong += not right
            front.end()
    if "helmreleases" in kinds:
        text, right = leader_killed()
        print(text, flush=True)
        wrong += not right
    quiet("delete", "namespace", HOME, "--wait=false")
    return bool(wrong)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:] or ["helmreleases", "helmfiles", "modules"]))
    finally:
        # The control plane ends what it started itself.
        if ServerRestarted.started:
            ServerRestarted.started.kill()
