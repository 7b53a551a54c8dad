#!/usr/bin/env python3
"""Repositories beside Helm 4: an index of 50,000 entries, and the dependencies of an umbrella chart with ten.

    source.py [WINDLASS HELM [ENTRIES [RUNS]]]

Both fetch from one server on loopback, each with a home of its own, in turns; figures are medians of RUNS runs: wall time and
the process's peak of resident memory.
"""

import hashlib
import http.server
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

from run import measured

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 1
DEPENDENCIES = 10


def package(helm, root, name):
    """A small chart, packed."""
    chart = root / "charts" / name
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.99\n")
    (chart / "templates" / "a.yaml").write_text("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")
    subprocess.run([helm, "package", chart, "-d", root / "www"], check=True, stdout=subprocess.DEVNULL)
    return hashlib.sha256((root / "www" / f"{name}-1.0.99.tgz").read_bytes()).hexdigest()


def entry(name, version, digest):
    return (
        f"  - apiVersion: v2\n    appVersion: {version}\n    created: \"2026-01-02T03:04:05.678901234Z\"\n"
        f"    dependencies:\n    - condition: common.enabled\n      name: common\n      repository: https://charts.example.test\n"
        f"      version: 2.x.x\n    description: |-\n      A chart of {name}, as public repositories have them: a line or two\n"
        f"      of words about what it installs.\n    digest: \"{digest}\"\n    home: https://example.test/{name}\n"
        f"    icon: https://example.test/{name}.svg\n    keywords:\n    - {name}\n    - database\n    - cache\n    maintainers:\n"
        f"    - email: me@example.test\n      name: me\n    name: {name}\n    sources:\n    - https://example.test/source/{name}\n"
        f"    urls:\n    - {name}-{version}.tgz\n    version: {version}\n"
    )


def index(root, digests, entries):
    """`entries` versions of charts with 100 each; the ten that are there come among them."""
    names = sorted(digests) + [f"filler-{n:04}" for n in range(entries // 100 - len(digests))]
    with open(root / "www" / "index.yaml", "w") as out:
        out.write("apiVersion: v1\nentries:\n")
        for name in sorted(names):
            out.write(f"  {name}:\n")
            for patch in reversed(range(100)):
                digest = digests.get(name) if patch == 99 else None
                out.write(entry(name, f"1.0.{patch}", digest or hashlib.sha256(f"{name}{patch}".encode()).hexdigest()))
        out.write("generated: \"2026-01-02T03:04:05Z\"\n")


def measure(program, args, home):
    """Seconds and MiB of a run."""
    seconds, _, peak = measured([program, *args], env={"HOME": str(home), "PATH": os.environ["PATH"]})
    return seconds, peak


def umbrella(home, url, digests):
    chart = home / "umbrella"
    shutil.rmtree(chart, ignore_errors=True)
    chart.mkdir(parents=True)
    lines = "".join(f"- {{name: {name}, version: ^1, repository: \"{url}\"}}\n" for name in sorted(digests))
    (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n{lines}")
    return str(chart)


def main():
    programs = sys.argv[1:3] or [ROOT / "target/release/windlass", shutil.which("helm")]
    windlass, helm = (os.path.abspath(p) for p in programs)
    entries = int(sys.argv[3]) if len(sys.argv) > 3 else 50_000
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else RUNS
    root = pathlib.Path(tempfile.mkdtemp(prefix="windlass-bench-"))
    try:
        (root / "www").mkdir()
        digests = {f"part-{n}": package(helm, root, f"part-{n}") for n in range(DEPENDENCIES)}
        index(root, digests, entries)
        size = (root / "www" / "index.yaml").stat().st_size

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=root / "www")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        steps = ["repo add", "template of one chart", "dependency update", "the same again"]
        figures = {step: {"windlass": [], "helm 4": []} for step in steps}
        for _ in range(runs):
            for name, program in (("helm 4", helm), ("windlass", windlass)):
                home = root / name.replace(" ", "")
                shutil.rmtree(home, ignore_errors=True)
                home.mkdir()
                run = lambda step, args: figures[step][name].append(measure(program, args, home))
                run("repo add", ["repo", "add", "big", url])
                run("template of one chart", ["template", "x", "big/part-3"])
                chart = umbrella(home, url, digests)
                run("dependency update", ["dependency", "update", chart])
                run("the same again", ["dependency", "update", chart])
        print(f"index of {entries} entries, {size / 1e6:.1f} MB; median of {runs} runs in turns\n")
        print("| work | helm 4 | windlass | times faster | helm 4 MiB | windlass MiB | share of memory |\n|---|---|---|---|---|---|---|")
        for step, by in figures.items():
            (ht, hm), (wt, wm) = (
                tuple(statistics.median(r[i] for r in by[p]) for i in (0, 1)) for p in ("helm 4", "windlass")
            )
            print(f"| {step} | {ht:.2f} s | {wt:.2f} s | {ht / wt:.1f} | {hm:.0f} | {wm:.0f} | {wm / hm:.0%} |")
        server.shutdown()
    finally:
        shutil.rmtree(root)


main()
