#!/usr/bin/env python3
"""Runs the targets of `fuzz.rs` with libFuzzer, and measures which lines their inputs reach.

    fuzz.py run [--seconds N] [--jobs N] [--target NAME ...]
    fuzz.py coverage [--target NAME ...]

`run` builds the targets with LLVM's counters of edges and the checks of a debug build, and gives each a process of its own, JOBS of them at
a time. The inputs that reached new code stay in `target/fuzz/corpus/TARGET`: the next run begins with them. An input that panics, takes too
long or too much memory ends its target and lies in `target/fuzz/found`. `coverage` gives the same inputs to a build with LLVM's source-based
coverage, and prints the lines of each target's own readers that were reached. It needs the component `llvm-tools` of the toolchain.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET_DIRECTORY = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CORPUS = TARGET_DIRECTORY / "fuzz/corpus"
FOUND = TARGET_DIRECTORY / "fuzz/found"
# An input longer than this is cut (fuzz.rs has the same number); one that takes longer is a finding.
LONGEST = 16 << 10
TIMEOUT = 25
COUNTERS = (
    "--cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters "
    "-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
)
STATUS = re.compile(rb"#(\d+)\s+(\w+)\s+cov: (\d+) ft: (\d+) corp: (\d+)/")
STATISTIC = re.compile(rb"stat::(\w+):\s+(\d+)")
EDGES = re.compile(rb"Loaded 1 modules\s+\((\d+) inline 8-bit counters\)")

# The sources that read what a target is given.
FETCH, HELMFILE = "crates/windlass-fetch/src/", "crates/windlass-helmfile/src/"
COMPAT, MODULES = "crates/helmfile-compat/src/", "crates/windlass-modules/src/"
CHARTS, KUSTOMIZE = "chart-compat/src/", "kustomize-compat/src/"
YAML = [CHARTS + "yaml/"]
TAR = [CHARTS + "tar_reader.rs"]
CHART_FILES = [CHARTS + "chart/"]
DEFINITIONS = ["crates/windlass-charts/src/"]
ARCHIVES = [*TAR, FETCH + "archive.rs", "crates/windlass-artifacts/src/", HELMFILE + "bundle/bundle_archive.rs"]
RECORDS = ["crates/windlass-engine/src/record/"]
READERS = {
    "yaml": YAML,
    "manifests": [CHARTS + "kyaml.rs"],
    "json": [CHARTS + "json/"],
    "template": [CHARTS + "template/"],
    "strvals": [CHARTS + "values/strvals.rs"],
    "patterns": [CHARTS + "go/"],
    "archive, inside": CHART_FILES + TAR,
    "archive, outside": CHART_FILES + TAR,
    "chart files": CHART_FILES,
    "definitions from values": DEFINITIONS,
    "definitions from schemas": DEFINITIONS,
    "overlays of schemas": DEFINITIONS,
    "value switches": ["crates/windlass-charts/src/value_switches.rs"],
    "watches files": ["crates/windlass-chartresource/src/watches_file.rs", "crates/windlass-chartresource/src/override_values.rs"],
    "state files": [COMPAT],
    "state documents": [COMPAT + "document.rs", COMPAT + "lock.rs", COMPAT + "selector.rs"],
    "hcl": [COMPAT + "hcl.rs", COMPAT + "hcl/"],
    "references": [COMPAT + "secret_references.rs", HELMFILE + "secrets/"],
    "kustomization": [KUSTOMIZE],
    "kustomization files": [KUSTOMIZE + "kustomization/", KUSTOMIZE + "fieldspec/", KUSTOMIZE + "schema/", KUSTOMIZE + "selector/"],
    "strategic merge": [KUSTOMIZE + "patch/"],
    "json patch": [KUSTOMIZE + "patch/json6902.rs"],
    "records, inside": RECORDS,
    "records, packed": RECORDS,
    "records, outside": RECORDS,
    "repository index": [FETCH + "index/"],
    "maven": [FETCH + "maven/maven_version.rs"],
    "hook configurations": [MODULES + "shell_hooks/config/"],
    "hook outputs": [MODULES + "shell_hooks/operations.rs", MODULES + "shell_hooks/metrics_file.rs", MODULES + "shell_hooks/values_patch.rs"],
    "source archives, inside": ARCHIVES,
    "source archives, outside": ARCHIVES,
    "addresses": [FETCH + "address_guard.rs", FETCH + "location.rs", FETCH + "chart_reference.rs", HELMFILE + "addresses/", COMPAT + "paths.rs"],
}


def host():
    return next(line for line in output("rustc", "-vV").splitlines() if line.startswith("host: ")).split()[1]


def built(*options, **more):
    """The executable of the targets, as cargo builds it with these options and variables."""
    command = ["cargo", "test", *options, "--test", "fuzz", "--no-run", "--message-format=json-render-diagnostics"]
    lines = output(*command, environment={**os.environ, **more}).splitlines()
    artifacts = [json.loads(line) for line in lines if line.startswith("{")]
    return next(a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "fuzz")


def output(*command, environment=None):
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def targets(executable, wanted):
    """Each target and the test that it is in."""
    directory = str(ROOT / "tests/fuzz")
    environment = {**os.environ, "FUZZ_TARGET": "", "CARGO_MANIFEST_DIR": directory, "LLVM_PROFILE_FILE": os.devnull}
    listed = subprocess.run([executable, "--test-threads", "1"], env=environment, capture_output=True, text=True, check=True).stderr
    found = {name: test for test, name in (line.split("\t") for line in listed.splitlines() if "\t" in line)}
    unknown = [name for name in wanted if name not in found]
    if unknown:
        sys.exit(f"no target {unknown[0]!r}; there are: {', '.join(sorted(found))}")
    return {name: found[name] for name in wanted or found}


def directory_name(target):
    return re.sub("[ ,]", "-", target)


def environment_of(target, scratch, **more):
    return {**os.environ, "CARGO_MANIFEST_DIR": str(ROOT / "tests/fuzz"), "TMPDIR": scratch, "FUZZ_TARGET": target, **more}


def fuzz(executable, target, test, seconds, scratch):
    """Runs one target, and returns its row."""
    name = directory_name(target)
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    arguments = f"-max_total_time={seconds} -timeout={TIMEOUT} -max_len={LONGEST} -print_final_stats=1 -artifact_prefix={FOUND}/{name}- {corpus}"
    environment = environment_of(target, scratch, FUZZ_CORPUS=str(corpus), BOLERO_LIBFUZZER_ARGS=arguments)
    log = open(TARGET_DIRECTORY / f"fuzz/{name}.log", "wb")
    child = subprocess.Popen(
        [executable, test, "--exact", "--test-threads", "1", "--nocapture"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    begin = time.monotonic()
    row = {"target": target, "total": 0, "seeds": 0, "edges": 0, "last": 0, "inputs": 0, "slowest": 0, "memory": 0}
    for line in child.stderr:
        log.write(line)
        if match := EDGES.search(line):
            row["total"] = int(match[1])
        elif match := STATUS.match(line):
            row["inputs"], edges = int(match[1]), int(match[3])
            if match[2] == b"INITED":
                row["seeds"] = edges
            elif edges > row["edges"]:
                row["last"] = time.monotonic() - begin
            row["edges"] = max(edges, row["edges"])
            row["kept"] = int(match[5])
        elif match := STATISTIC.match(line):
            key = {b"number_of_executed_units": "inputs", b"slowest_unit_time_sec": "slowest", b"peak_rss_mb": "memory"}.get(match[1])
            if key:
                row[key] = int(match[2])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    row["code"] = child.returncode
    row["wall"], row["processor"] = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
    return row


def run(options):
    # With a triple, the flags are not those of build scripts and procedural macros.
    executable = built("-p", "windlass-fuzz", "--profile", "fuzz", "--target", host(), RUSTFLAGS=COUNTERS)
    FOUND.mkdir(parents=True, exist_ok=True)
    begin = time.time()
    wanted = targets(executable, options.target)
    print("| target | inputs | wall, processor (s) | edges of the seeds, at the end | last new edge (s) | slowest (s) | MiB | ended |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    failed = False
    # Archives are unpacked in memory: a disk would be most of their time.
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, tempfile.TemporaryDirectory(dir=where) as scratch:
        rows = [pool.submit(fuzz, executable, target, test, options.seconds, scratch) for target, test in wanted.items()]
        for row in map(concurrent.futures.Future.result, concurrent.futures.as_completed(rows)):
            ended = "in time" if row["code"] == 0 else f"**with {row['code']}**"
            failed |= row["code"] != 0
            print(
                f"| {row['target']} | {row['inputs']:,} | {row['wall']:.0f}, {row['processor']:.0f} | {row['seeds']:,}, {row['edges']:,} | {row['last']:.0f} "
                f"| {row['slowest']} | {row['memory']} | {ended} |",
                flush=True,
            )
    found = [path for path in sorted(FOUND.iterdir()) if path.stat().st_mtime >= begin]
    for path in found:
        print(f"found: {path}")
    sys.exit(1 if failed or found else 0)


def llvm(tool):
    path = pathlib.Path(output("rustc", "--print", "sysroot").strip()) / "lib/rustlib" / host() / "bin" / tool
    if not path.exists():
        sys.exit(f"{tool} is not there: rustup component add llvm-tools")
    return str(path)


def coverage(options):
    tools = [llvm("llvm-profdata"), llvm("llvm-cov")]
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        wrapper = str(ROOT / "tests/fuzz/instrumented.sh")
        executable = built("--workspace", RUSTC_WORKSPACE_WRAPPER=wrapper, LLVM_PROFILE_FILE=os.devnull)
        wanted = targets(executable, options.target)
        print("| target | inputs | lines of its readers | reached |\n| --- | ---: | ---: | ---: |", flush=True)
        profiles = []
        for target, test in wanted.items():
            corpus = CORPUS / directory_name(target)
            if not corpus.is_dir():
                sys.exit(f"no inputs of {target!r}: run them first")
            raw, merged = directory / "raw", directory / directory_name(target)
            environment = environment_of(target, str(directory), FUZZ_REPLAY=str(corpus), LLVM_PROFILE_FILE=str(raw))
            subprocess.run([executable, test, "--exact", "--test-threads", "1"], env=environment, stdout=subprocess.DEVNULL, check=True)
            output(tools[0], "merge", "-sparse", str(raw), "-o", str(merged))
            profiles.append(str(merged))
            if target in READERS:
                lines, reached = covered(tools[1], executable, merged, READERS[target])
                inputs = sum(1 for _ in corpus.iterdir())
                print(f"| {target} | {inputs:,} | {lines:,} | {reached:,} ({100 * reached / lines:.0f} %) |", flush=True)
        output(tools[0], "merge", "-sparse", *profiles, "-o", str(directory / "all"))
        print("\n| directory or file, of all these targets | lines | reached |\n| --- | ---: | ---: |")
        for path in sorted({path for target in wanted for path in READERS.get(target, [])}):
            lines, reached = covered(tools[1], executable, directory / "all", [path])
            print(f"| {path} | {lines:,} | {reached:,} ({100 * reached / lines:.0f} %) |", flush=True)
        if options.keep:
            shutil.copy(directory / "all", options.keep)
            print(f"\n{tools[1]} show {executable} -instr-profile {options.keep} SOURCES")


def covered(tool, executable, profile, sources):
    """Lines of the sources, and how many of them ran."""
    paths = [str(ROOT / source) for source in sources]
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        sys.exit(f"{missing[0]} is not there: correct READERS")
    exported = json.loads(output(tool, "export", "-summary-only", "-instr-profile", str(profile), executable, *paths))
    files = exported["data"][0]["files"]
    return sum(f["summary"]["lines"]["count"] for f in files), sum(f["summary"]["lines"]["covered"] for f in files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--seconds", type=int, default=300, help="of each target")
    running.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="targets at a time")
    running.set_defaults(action=run)
    measured = commands.add_parser("coverage")
    measured.add_argument("--keep", metavar="FILE", help="where to leave the profile of all targets, for llvm-cov show")
    measured.set_defaults(action=coverage)
    for command in (running, measured):
        command.add_argument("--target", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
