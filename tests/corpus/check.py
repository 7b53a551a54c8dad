#!/usr/bin/env python3
"""Judges a windlass binary on the chart corpus: check.py CORPUS WINDLASS HELM4 HELM3 [CHART[/CASE]...]

Profile helm4 is compared with the output that the corpus holds of Helm 4, and where that differs with what HELM4 prints now
(a chart that prints the date makes a record that is right for a day); profile helm3 with what HELM3 prints now. Of a
case count the exit status, standard output to the byte, and standard error but for log lines, in any order of its lines
(breaches of a schema come in the order of a Go map). The corpus says in which cases a chart prints random values or the
time: lines that it names for Helm 4 are not compared; for Helm 3 those are not that differ between a run before ours and
one after ours.

Prints every case that is not equal, and `N of N` for each profile; the exit status is 1 if one is not equal.
"""
import concurrent.futures, difflib, json, os, re, subprocess, sys, tempfile, time

LOG = re.compile(rb"level=|time=|\w+\.go:\d+: |\d{4}/\d\d/\d\d |[IWEF]\d{4} |WARNING: Kubernetes configuration file")
SHOWN = 14


def cases(corpus, only):
    base = os.path.join(corpus, "cases")
    for chart in sorted(os.listdir(base)):
        for case in sorted(os.listdir(os.path.join(base, chart))):
            path = os.path.join(base, chart, case)
            if not only or chart in only or f"{chart}/{case}" in only:
                with open(os.path.join(path, "cmd.json"), encoding="utf-8") as f:
                    yield f"{chart}/{case}", os.path.relpath(path, corpus), json.load(f)


def arguments(path, cmd):
    out = ["template", cmd["release"], cmd["chart"], "-n", cmd["namespace"], "--kube-version", cmd["kubeVersion"]]
    out += ["-f", os.path.join(path, "values.yaml")]  # relative to the corpus, as the recorded messages name it
    for version in cmd.get("apiVersions") or []:
        out += ["-a", version]
    out += ["--include-crds"] if cmd.get("includeCrds") else []
    return out + (["--is-upgrade"] if cmd.get("isUpgrade") else [])


class Judge:
    def __init__(self, corpus, windlass, helm4, helm3, home):
        self.corpus, self.windlass, self.home = corpus, windlass, home
        self.helm4, self.helm3 = helm4, helm3
        self.outdated = []

    def run(self, program, arguments):
        """Status, lines of standard output, lines of the message."""
        env = {"HOME": self.home, "TZ": "UTC", "PATH": os.environ.get("PATH", "")}
        try:
            done = subprocess.run([program, *arguments], cwd=self.corpus, env=env, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None, [], [b"timed out"]
        return done.returncode, lines(done.stdout), message(done.stderr)

    def recorded(self, path, cmd):
        """Expected answer, ours."""
        ours = self.run(self.windlass, arguments(path, cmd) + ["--compat", "helm4"])
        if cmd["expect"] == "error":
            return (1, [], message(read(os.path.join(self.corpus, path, "expected.err")))), (ours[0], [], ours[2])
        expected = lines(read(os.path.join(self.corpus, path, "expected.yaml")))
        masked = set(cmd["maskedLines"]) if cmd.get("masked") else ()

        def beside(lines):
            return ours[0], unmask(lines, ours[1], lambda i: i + 1 in masked), ours[2]

        record = 0, expected, []
        if record != beside(expected):
            now = self.run(self.helm4, arguments(path, cmd))
            if now == beside(now[1]):
                self.outdated.append(path)
                return now, now
        return record, beside(expected)

    def now(self, path, cmd):
        expected = self.run(self.helm3, arguments(path, cmd))
        ours = self.run(self.windlass, arguments(path, cmd) + ["--compat", "helm3"])
        if expected != ours and cmd.get("masked"):
            again = self.run(self.helm3, arguments(path, cmd))[1]
            if len(again) == len(expected[1]):
                ours = ours[0], unmask(expected[1], ours[1], lambda i: again[i] != expected[1][i]), ours[2]
        return expected, ours


def read(path):
    with open(path, "rb") as f:
        return f.read()


def lines(text):
    return text.split(b"\n")


def message(stderr):
    return sorted(line for line in lines(stderr) if line and not LOG.match(line))


def unmask(expected, ours, masked):
    if len(expected) != len(ours):
        return ours
    return [expected[i] if masked(i) else line for i, line in enumerate(ours)]


def difference(expected, ours):
    if expected[0] != ours[0]:
        return [f"  exit status {ours[0]} instead of {expected[0]}"] + shown(expected[2], ours[2])
    return shown(expected[1], ours[1]) or shown(expected[2], ours[2])


def shown(a, b):
    texts = [[line.decode("utf-8", "replace")[:200] for line in side] for side in (a, b)]
    if max(map(len, texts)) > 20000:  # difflib is slow on long ones
        first = next((i for i, (x, y) in enumerate(zip(*texts)) if x != y), 0)
        texts = [side[max(0, first - 2):first + 20] for side in texts]
    diff = list(difflib.unified_diff(*texts, "helm", "windlass", lineterm="", n=1))[2:]
    return ["  " + line for line in diff[:SHOWN]]


def main():
    corpus, windlass, helm4, helm3 = (os.path.abspath(p) for p in sys.argv[1:5])
    todo = list(cases(corpus, sys.argv[5:]))
    wrong = 0
    with tempfile.TemporaryDirectory() as home, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        judge = Judge(corpus, windlass, helm4, helm3, home)
        for profile, ask in (("helm4", judge.recorded), ("helm3", judge.now)):
            start, good = time.time(), 0
            for (name, _, _), (expected, ours) in zip(todo, pool.map(lambda c: ask(c[1], c[2]), todo)):
                if expected == ours:
                    good += 1
                else:
                    print(f"{name} as {profile}:", *difference(expected, ours), sep="\n")
            failing = sum(cmd["expect"] == "error" for _, _, cmd in todo)
            print(f"corpus: {good} of {len(todo)} cases as {profile} prints them, {failing} of which must fail "
                  f"({time.time() - start:.0f} s)", flush=True)
            wrong += len(todo) - good
        if judge.outdated:
            print(f"corpus: {len(judge.outdated)} of these as Helm 4 prints them now; their records are out of date:",
                  *sorted(judge.outdated))
    sys.exit(1 if wrong or not todo else 0)


if __name__ == "__main__":
    main()
