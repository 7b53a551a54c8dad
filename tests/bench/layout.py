#!/usr/bin/env python3
"""Writes layout.ld anew: which functions of a release build lie together, since they run.

    layout.py BINARY

BINARY is the release build with its symbols: of the same profile, since that is in the names. It runs under valgrind: charts are rendered, a release lives its life, and an operator
converges, on the control plane of KUBECONFIG. What ran is listed, what all of these need first; the linker takes the list as it is. A
name that is no more costs nothing, and what is not listed lies where it would have without. A name ends with a hash, which changes with
the compiler, the profile, and what the crate of the function and those before it depend on; it is left open where most of what has the
name runs. `make layout` is for after a change of those, or when much is new.
"""
import collections, os, pathlib, re, signal, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = """/* Functions that run, side by side: what is touched of the program is what it costs in memory. Written by `make layout`. */
SECTIONS {
  .text.run : {
"""
# Rust's names and those of the cryptography in C; the C library is not ours to place.
NAME = re.compile(r"c?fn=\(\d+\) ((?:_ZN|_R|aws_lc_)\S+)")

HASH = re.compile(r"17h[0-9a-f]{16}E")


class Runs:
    """Runs of the binary, and the names of the functions that ran."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.names, self.count = binary, pathlib.Path(folder), {}, 0

    def start(self, *args):
        self.count += 1
        out = f"--callgrind-out-file={self.folder}/{self.count}.%p"
        return subprocess.Popen(["valgrind", "-q", "--tool=callgrind", "--demangle=no", out, self.binary, *args],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self, *args):
        child = self.start(*args)
        errors = child.communicate()[1].decode()
        if child.returncode:
            sys.exit(f"{' '.join(map(str, args))}: {errors}")

    def collect(self, what):
        """Takes in what has run since: for each name the kinds of runs that it was seen in."""
        for path in sorted(self.folder.iterdir()):
            with path.open(errors="replace") as lines:
                for line in lines:
                    if found := NAME.match(line):
                        self.names.setdefault(section(found[1]), set()).add(what)
            path.unlink()

    def ordered(self):
        """The names, side by side what the same kinds of runs have: what most have first. A page that is touched brings its neighbours."""
        kinds = sorted({kind for kinds in self.names.values() for kind in kinds})
        return sorted(self.names, key=lambda name: (-len(self.names[name]), [kind not in self.names[name] for kind in kinds]))


def section(name):
    """Where a function lies before it is linked: without the endings that valgrind and the optimizer give its name."""
    return ".text." + re.sub(r"('\d+|\.(llvm|cold|part|isra|constprop)\..*)$", "", name)


def opened(names, binary):
    """The names with their hashes left open where at least half of what is pulled in so has run, by bytes."""
    sizes, ran, alike, seen = {}, collections.Counter(), collections.Counter(), set(names)
    for line in subprocess.run(["nm", "-S", binary], check=True, capture_output=True, text=True).stdout.splitlines():
        if len(fields := line.split()) == 4 and fields[2] in "tT":
            name = section(fields[3])
            sizes[name] = sizes.get(name, 0) + int(fields[1], 16)
    for name, size in sizes.items():
        stem = HASH.sub("17h*E", name)
        alike[stem] += size
        ran[stem] += size if name in seen else 0
    stems = ((HASH.sub("17h*E", name), name) for name in names)
    return dict.fromkeys(stem if 2 * ran[stem] >= alike[stem] else name for stem, name in stems)


def charts(runs):
    for chart in sorted((ROOT / "fixtures/charts").iterdir()):
        for case in sorted((chart / "cases").iterdir())[:1]:
            if (case / "expected.helm4.yaml").exists() and (chart / "chart").is_dir():
                values = ["-f", case / "values.yaml"] if (case / "values.yaml").exists() else []
                arguments = (case / "args.txt").read_text().splitlines() if (case / "args.txt").exists() else []
                subprocess.run([runs.binary, "package", chart / "chart", "-d", runs.folder], check=True, stdout=subprocess.DEVNULL)
                packed = max(runs.folder.glob("*.tgz"), key=os.path.getmtime)
                runs.start("template", "demo", packed, *values, *arguments).communicate()
                packed.unlink()


def releases(runs):
    chart = ROOT / "modules/030-cache"
    for kind, commands in (("change", (["install", "r", chart], ["upgrade", "r", chart], ["rollback", "r", "1"])),
                           ("look", (["list"], ["history", "r"], ["status", "r"])), ("uninstall", (["uninstall", "r"],))):
        for args in commands:
            runs.run(*args, "-n", "layout")
        runs.collect(kind)


def operator(runs):
    address = runs.folder / "address"
    child = runs.start("operator", "--namespace", "layout", "--modules-dir", ROOT / "modules", "--listen-address", "127.0.0.1",
                       "--listen-port", "0", "--address-file", address)
    while not address.exists() or subprocess.run(["curl", "-sf", f"http://{address.read_text()}/readyz"],
                                                 stdout=subprocess.DEVNULL).returncode:
        if child.poll() is not None:
            sys.exit(child.stderr.read().decode())
        time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    child.communicate()
    address.unlink()


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(pathlib.Path(sys.argv[1]).resolve(), folder)
        charts(runs)
        runs.collect("template")
        subprocess.run(["kubectl", "create", "namespace", "layout"], check=True, stdout=subprocess.DEVNULL)
        releases(runs)
        operator(runs)
        runs.collect("operator")
        lines = "".join(f"    *({name})\n" for name in opened(runs.ordered(), sys.argv[1]))
        (ROOT / "layout.ld").write_text(f"{HEAD}{lines}  }}\n}}\nINSERT BEFORE .text;\n")
        for kinds, count in collections.Counter(" ".join(sorted(kinds)) for kinds in runs.names.values()).most_common():
            print(f"{count} functions in {kinds}")


if __name__ == "__main__":
    main()
