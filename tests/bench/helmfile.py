#!/usr/bin/env python3
"""Measures `windlass helmfile` beside the real helmfile with the real Helm in one run; `make bench-helmfile` runs it. HELMFILE, HELM and
WINDLASS name the binaries. With HELM_DIFF, the directory of the plugin helm-diff, `diff` and `apply` are measured on the cluster of
KUBECONFIG, too.

30 releases of three charts (10, 30 and 60 objects), with an environment, templates of releases, values files and needs. Prints Markdown:
milliseconds in turns, in the median, and the peak MiB of the largest process. The outputs of `list` and `template` must be equal.
"""
import hashlib, os, pathlib, statistics, subprocess, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WINDLASS = os.environ.get("WINDLASS", str(ROOT / "target/release/windlass"))
HELMFILE, HELM = os.environ["HELMFILE"], os.environ["HELM"]
RELEASES, RUNS = 30, 5
SPEED, MEMORY = 10, 0.25

OBJECT = """{{{{- range $n := until {count} }}}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ $.Release.Name }}}}-{{{{ $n }}}}
  labels: {{{{- $.Values.labels | toYaml | nindent 4 }}}}
data:
  tag: {{{{ $.Values.image.tag | quote }}}}
  number: {{{{ printf "%05d" $n | quote }}}}
{{{{- end }}}}
"""
STATE = """environments:
  default:
    values: [environment.yaml]
---
templates:
  app:
    namespace: '{{ .Release.Labels.team }}'
    values: ['values/{{ .Release.Name }}.yaml.gotmpl']
    missingFileHandler: Warn
releases:
"""


def files(prefix=""):
    """Path and text of each file. `prefix`: of the namespaces."""
    made = {"environment.yaml": "tag: '7'\ndomain: shop.example\n"}
    for name, count in (("small", 10), ("middle", 30), ("large", 60)):
        made[f"charts/{name}/Chart.yaml"] = f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n"
        made[f"charts/{name}/values.yaml"] = "image: {tag: none}\nlabels: {a: b}\n"
        made[f"charts/{name}/templates/objects.yaml"] = OBJECT.format(count=count)
    state = STATE
    for n in range(RELEASES):
        chart = ("small", "middle", "large")[n % 3]
        needs = f", needs: [{prefix}team-{(n - 3) % 4}/app-{n - 3}]" if n >= 3 else ""
        state += f"  - {{name: app-{n}, chart: ./charts/{chart}, labels: {{team: {prefix}team-{n % 4}}}, inherit: [{{template: app}}]{needs}}}\n"
        made[f"values/app-{n}.yaml.gotmpl"] = "image: {tag: {{ .Values.tag | quote }}}\nlabels: {domain: {{ .Values.domain }}}\n"
    return {**made, "helmfile.yaml": state}


def write(directory, made):
    """Writes files into a directory."""
    for path, text in made.items():
        place = pathlib.Path(directory) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def measured(command, directory):
    """Milliseconds, the output's digest, and MiB at the peak of the largest process, by GNU time."""
    with tempfile.NamedTemporaryFile() as note:
        begin = time.monotonic()
        done = subprocess.run(["/usr/bin/time", "-o", note.name, "-f", "%M", *command], cwd=directory, capture_output=True)
        took = (time.monotonic() - begin) * 1000
        assert done.returncode == 0, done.stderr.decode()
        return took, hashlib.sha256(done.stdout).hexdigest(), int(note.read().split()[-1]) / 1024


def main():
    print("| command | helmfile ms | windlass ms | times faster | helmfile MiB | windlass MiB | of its memory | goal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as directory:
        write(directory, files())
        tools = ([HELMFILE, "--quiet", "-b", HELM], [WINDLASS, "helmfile", "--quiet"])
        for words in (["list", "--output", "json"], ["template"]):
            times, peaks = ([], []), [0, 0]
            for _ in range(RUNS):
                digests = set()
                for number, tool in enumerate(tools):
                    took, digest, peak = measured([*tool, *words], directory)
                    times[number].append(took)
                    digests.add(digest)
                    peaks[number] = max(peaks[number], peak)
                assert len(digests) == 1, f"{words}: the outputs differ"
            row(f"{' '.join(words)} of {RELEASES} releases", times, peaks)
    if os.environ.get("HELM_DIFF"):
        on_cluster()


def row(name, times, peaks):
    """Prints a row of the table."""
    theirs, ours = (statistics.median(one) for one in times)
    ratio, share = theirs / ours, peaks[1] / peaks[0]
    missed = [text for failed, text in ((ratio < SPEED, f"not {SPEED} times faster"), (share > MEMORY, "more than a quarter of the memory")) if failed]
    print(f"| {name} | {theirs:.0f} | {ours:.0f} | {ratio:.0f} | {peaks[0]:.0f} | {peaks[1]:.0f} | {share:.2f} | {'; '.join(missed) or 'reached'} |", flush=True)


def on_cluster():
    """`diff` with nothing to do and `apply` of one change, each tool on releases of its own."""
    with tempfile.TemporaryDirectory() as home:
        plugins = pathlib.Path(home) / "plugins"
        plugins.mkdir()
        (plugins / "diff").symlink_to(pathlib.Path(os.environ["HELM_DIFF"]).resolve())
        os.environ["HELM_PLUGINS"] = str(plugins)
        tools = (("theirs", [HELMFILE, "--quiet", "-b", HELM]), ("ours", [WINDLASS, "helmfile", "--quiet"]))
        for name, tool in tools:
            write(pathlib.Path(home) / name, files(f"{name}-"))
            measured([*tool, "apply"], pathlib.Path(home) / name)
        cases = (("diff, nothing to do", ["diff"], False), (f"apply of one change in {RELEASES}", ["apply"], True))
        for title, words, changes in cases:
            times, peaks = ([], []), [0, 0]
            for run in range(RUNS):
                for number, (name, tool) in enumerate(tools):
                    if changes:
                        write(pathlib.Path(home) / name, {"values/app-7.yaml.gotmpl": f"image: {{tag: 'run-{run}'}}\nlabels: {{run: 'r{run}'}}\n"})
                    took, _, peak = measured([*tool, *words], pathlib.Path(home) / name)
                    times[number].append(took)
                    peaks[number] = max(peaks[number], peak)
            row(title, times, peaks)


main()
