#!/usr/bin/env python3
"""Measures hooks at scale; `make bench-hooks` runs this inside a control plane.

Prints Markdown: 300 modules of a chart and four hooks each (cold converge, restart, CPU, memory, API requests), and 10,000
objects that one hook watches through a jqFilter (first list, memory, then every object changed: events a second). With a program of
module-sdk in BATCH_PROGRAM: what its calls cost, and 30 modules of such programs, beside the calls that addon-operator makes in turn.
"""
import os, pathlib, shutil, subprocess, sys, tempfile, time

from run import WINDLASS, Operator, difference, kubectl, requests

MODULES = int(os.environ.get("BENCH_MODULES", "300"))
OBJECTS = int(os.environ.get("BENCH_OBJECTS", "10000"))
PROGRAMS = int(os.environ.get("BENCH_PROGRAMS", "30"))

HOOK = """#!/bin/sh
if [ "$1" = --config ]; then cat <<'END'
%s
END
exit; fi
%s
"""


def hook(path, config, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HOOK % (config, body))
    path.chmod(0o755)


def tree(count):
    out = pathlib.Path(tempfile.mkdtemp())
    flags = []
    for i in range(1, count + 1):
        name = f"mod{i:03d}"
        # Ten to a number, so that there is an order and there are neighbours.
        module = out / f"{1 + i // 10:03d}-{name}"
        (module / "templates").mkdir(parents=True)
        (module / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 0.1.0\n")
        (module / "values.yaml").write_text(f"{name}:\n  size: 1\n")
        (module / "templates/a.yaml").write_text(
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{made: {{{{ .Values.{name}.made | default 0 | quote }}}}}}\n"
            f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{selector: {{app: {name}}}, ports: [{{port: 80}}]}}\n")
        hook(module / "hooks/start.sh", "configVersion: v1\nonStartup: 1", "true")
        hook(module / "hooks/before.sh", "configVersion: v1\nbeforeHelm: 1",
             f"echo '{{\"op\":\"add\",\"path\":\"/{name}/made\",\"value\":1}}' > $VALUES_JSON_PATCH_PATH")
        hook(module / "hooks/after.sh", "configVersion: v1\nafterHelm: 1", "true")
        hook(module / "hooks/watch.sh",
             "configVersion: v1\nkubernetes: [{name: own, apiVersion: v1, kind: ConfigMap, nameSelector: {matchNames: [" + name +
             "]}, namespace: {nameSelector: {matchNames: [hooks]}}, jqFilter: .data}]", "true")
        flags.append(f"{name}Enabled: true\n")
    (out / "values.yaml").write_text("".join(flags))
    return out


def many_modules():
    out, namespace = tree(MODULES), "hooks"
    kubectl("create", "namespace", namespace)
    print(f"| {MODULES} modules with 4 hooks each | windlass |\n| --- | ---: |")
    for what in ("cold start to converged", "restarted, hooks of the start run again"):
        before = requests()
        operator = Operator(str(out), namespace)
        seconds = operator.converged()
        print(f"| {what} | {seconds:.1f} s, {operator.cpu():.1f} s CPU of the operator, hooks aside |")
        print(f"| API requests of that | {difference(before)} |", flush=True)
        memory = operator.memory()
        if what.startswith("restarted"):
            cpu = operator.cpu()
            time.sleep(10)
            print(f"| idle | {(operator.cpu() - cpu) * 10:.1f} % of a core over 10 s |")
        print(f"| resident memory | {memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB |")
        operator.stop()
    shutil.rmtree(out)


def many_objects():
    namespace = "objects"
    kubectl("create", "namespace", namespace)
    scratch = pathlib.Path(tempfile.mkdtemp())
    chart = scratch / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: many\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text("size: 1\n")
    (chart / "templates/a.yaml").write_text(
        "{{- range $i := until %d }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: watched-{{ $i }}, labels: {bench: watched}}\n"
        "data: {size: {{ $.Values.size | quote }}, filler: {{ repeat 40 \"0123456789\" }}}\n{{- end }}\n" % OBJECTS)
    subprocess.run([WINDLASS, "install", "many", chart, "-n", namespace], check=True, stdout=subprocess.DEVNULL)
    modules = scratch / "modules"
    notes = scratch / "notes"
    hook(modules / "001-watch/hooks/watch.sh",
         "configVersion: v1\nkubernetes: [{name: all, apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {bench: watched}}, "
         "namespace: {nameSelector: {matchNames: [" + namespace + "]}}, jqFilter: .data.size, keepFullObjectsInMemory: false}]",
         f"{WINDLASS} jq -r '[.[] | if .type == \"Synchronization\" then (.objects | length) else 1 end] | add' $BINDING_CONTEXT_PATH >> {notes}")
    (modules / "values.yaml").write_text("watchEnabled: true\n")
    told = lambda: sum(int(n) for n in notes.read_text().split()) if notes.exists() else 0
    print(f"\n| {OBJECTS} objects through a jqFilter | windlass |\n| --- | ---: |")
    operator = Operator(str(modules), namespace)
    seconds = operator.converged()
    while told() < OBJECTS:
        time.sleep(0.01)
    memory = operator.memory()
    print(f"| first list told to the hook | {seconds:.1f} s, {operator.cpu():.1f} s CPU, {memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB |")
    cpu, started = operator.cpu(), time.perf_counter()
    subprocess.run([WINDLASS, "upgrade", "many", chart, "-n", namespace, "--set", "size=2"], check=True, stdout=subprocess.DEVNULL)
    written = time.perf_counter() - started
    while told() < 2 * OBJECTS:
        time.sleep(0.01)
    seconds = time.perf_counter() - started
    memory = operator.memory()
    print(f"| all changed | written in {written:.1f} s, told {seconds - written:.1f} s later: {OBJECTS / seconds:.0f} events a second, "
          f"{operator.cpu() - cpu:.1f} s CPU, {memory['VmRSS']:.0f} MiB, peak {memory['VmHWM']:.0f} MiB |")
    operator.stop()
    shutil.rmtree(scratch)


def seconds_of(*command, runs=5, **variables):
    """The median time of a call."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return sorted(times)[runs // 2]


def programs():
    program, namespace = os.environ.get("BATCH_PROGRAM"), "programs"
    if not program:
        print("\nno program of module-sdk in BATCH_PROGRAM: its figures are left out")
        return
    kubectl("create", "namespace", namespace)
    os.environ.update(BATCH_NAMESPACE=namespace, BATCH_PROBE_SECONDS="15")
    out, scratch = pathlib.Path(tempfile.mkdtemp()), pathlib.Path(tempfile.mkdtemp())
    flags = []
    for i in range(1, PROGRAMS + 1):
        name = f"prog{i:02d}"
        # A number each: modules of higher numbers wait for the lower ones.
        module = out / f"{i:03d}-{name}"
        (module / "templates").mkdir(parents=True)
        (module / "values.yaml").write_text(f"{name}: {{}}\n")
        (module / "templates/a.yaml").write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
        (module / "hooks").mkdir()
        shutil.copy(program, module / "hooks/program")
        flags.append(f"{name}Enabled: true\n")
    (out / "values.yaml").write_text("".join(flags))
    files = {"VALUES_PATH": "{}", "CONFIG_VALUES_PATH": "{}", "BINDING_CONTEXT_PATH": '[{"binding":"onStartup"}]', "METRICS_PATH": "",
             "KUBERNETES_PATCH_PATH": "", "VALUES_JSON_PATCH_PATH": "", "CONFIG_VALUES_JSON_PATCH_PATH": ""}
    variables = {"MODULE_NAME": "prog01"}
    for name, text in files.items():
        (scratch / name).write_text(text)
        variables[name] = str(scratch / name)
    size = os.path.getsize(program) / 2**20
    config, listing = seconds_of(program, "hook", "config"), seconds_of(program, "hook", "list")
    refused, run = seconds_of(program, "--config"), seconds_of(program, "hook", "run", "0", **variables)
    print(f"\n| {PROGRAMS} modules of a program of {size:.0f} MB with 4 hooks and a probe | |\n| --- | ---: |")
    print(f"| asked once, addon-operator: hook list, hook config | {(listing + config) * 1000:.0f} ms |")
    print(f"| asked once, windlass: --config, hook config | {(refused + config) * 1000:.0f} ms |")
    print(f"| one run by hand (hook run 0) | {run * 1000:.0f} ms |")
    print(f"| all asked in turn, addon-operator's calls | {(listing + config) * PROGRAMS:.1f} s |")
    for what in ("windlass, cold start to converged", "windlass, restarted"):
        operator = Operator(str(out), namespace)
        seconds = operator.converged()
        print(f"| {what}, with {3 * PROGRAMS} runs of hooks | {seconds:.1f} s, {operator.cpu():.1f} s CPU of the operator |", flush=True)
        operator.stop()
    shutil.rmtree(out)
    shutil.rmtree(scratch)


if __name__ == "__main__":
    many_modules()
    many_objects()
    programs()
