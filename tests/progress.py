#!/usr/bin/env python3
"""Runs `cargo test ARGS` and says how far it is: a line for each test binary, failures as they come, the slowest tests at the end.

libtest on stable Rust does not say how long a test took. It starts tests in the order of their names, as many at once as there are
threads, and prints a line when one ends: the times of those lines say when each began.
"""

import os
import re
import subprocess
import sys
import threading
import time

SLOWEST = 10
# Seconds between two lines about a binary that is still running.
EVERY = 10
# Seconds without the end of a test after which its binary is killed, as nothing else would end it: more than the first test of a fresh
# clone waits for the programs of the control plane to be built (about 8 minutes).
STUCK = 1200
RUNNING = re.compile(r"\s+Running (?:unittests )?(\S+) \((\S+)\)")
EXECUTABLE = re.compile(r"\s+Executable (?:unittests )?(\S+) \((\S+)\)")
DOC_TESTS = re.compile(r"\s+Doc-tests (\S+)")
# The result may follow what the test itself printed.
RESULT = re.compile(r"test (\S+)(?: - should panic)? \.\.\. .*?\b(ok|FAILED|ignored)\b")
SUMMARY = re.compile(r"test result: .*; finished in ([\d.]+)s")


def threads():
    """How many tests run at once. Those with a control plane wait for it much of their time: with two for each processor, the 141 tests of `controller`
    take 273 s on two processors, and 375 s with one for each."""
    return int(os.environ.get("RUST_TEST_THREADS", 0)) or 2 * len(os.sched_getaffinity(0))


def listed(path):
    """Names of the tests of a binary, in the order in which they start."""
    out = subprocess.run([path, "--list", "--format", "terse"], capture_output=True, text=True, check=True).stdout
    return [line.removesuffix(": test") for line in out.splitlines() if line.endswith(": test")]


def short(source, path):
    """`tests/engine/main.rs` is engine, `src/lib.rs` the name of its library."""
    crate = os.path.basename(path).rsplit("-", 1)[0]
    return f"{crate} (unit tests)" if source.startswith("src/") else crate


def say(text):
    print(text, flush=True)


class Binary:
    """The tests of one binary, and when each began."""

    def __init__(self, name, waiting):
        self.name, self.waiting = name, waiting
        self.count, self.done, self.failed = len(waiting), 0, []
        self.begin = self.last_line = time.monotonic()
        self.running = {}
        self.start_more(self.begin)

    def start_more(self, now):
        while self.waiting and len(self.running) < threads():
            self.running[self.waiting.pop(0)] = now

    def ended(self, test, result):
        """The seconds that a test took, if it began when its binary did or when another one ended."""
        now = time.monotonic()
        self.done += 1
        if result == "FAILED":
            self.failed.append(test)
            say(f"    FAILED {test}")
        began = self.running.pop(test, None)
        self.start_more(now)
        if now - self.last_line > EVERY:
            self.last_line = now
            say(f"    {self.done} of {self.count}, {now - self.begin:.0f} s")
        return None if began is None or result == "ignored" else now - began


class Watchdog:
    """Kills the test binary once no test has ended for too long: the other binaries run all the same."""

    def __init__(self, cargo):
        self.cargo, self.binary, self.last, self.killed = cargo, None, time.monotonic(), []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while self.cargo.poll() is None:
            time.sleep(1)
            if self.binary and time.monotonic() - self.last > STUCK:
                running = ", ".join(self.binary.running)
                say(f"    KILLED {self.binary.name}: no test ended for {STUCK} s; these were running: {running}")
                self.killed += [f"{self.binary.name}: {test} (killed)" for test in self.binary.running]
                self.last = time.monotonic()
                subprocess.run(["pkill", "-KILL", "-P", str(self.cargo.pid)], check=False)


def main(arguments):
    begin = time.monotonic()
    say("building the tests")
    filters = arguments.index("--") if "--" in arguments else len(arguments)
    build = ["cargo", "test", *arguments[:filters], "--no-run"]
    built = subprocess.Popen(build, stderr=subprocess.PIPE, text=True)
    binaries = {}
    for line in built.stderr:
        found = EXECUTABLE.match(line)
        if found:
            binaries[found[2]] = listed(found[2])
        elif line.strip():
            say(line.rstrip())
    if built.wait() != 0:
        return built.returncode
    total = sum(map(len, binaries.values()))
    say(f"{total} tests in {len(binaries)} binaries; the build took {time.monotonic() - begin:.0f} s")

    environment = os.environ | {"RUST_TEST_THREADS": str(threads())}
    tests = subprocess.Popen(["cargo", "test", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    binary, number, done, times, failures = None, 0, 0, [], []
    watchdog = Watchdog(tests)
    for line in tests.stdout:
        running, documents = RUNNING.match(line), DOC_TESTS.match(line)
        result, summary = RESULT.match(line), SUMMARY.match(line)
        if running or documents:
            number += 1
            if running:
                name, waiting = short(running[1], running[2]), listed(running[2])
            else:
                name, waiting = f"{documents[1]} (examples in documentation)", []
            binary = Binary(name, waiting)
            of = f" of {len(binaries)}" if number <= len(binaries) else ""
            watchdog.binary, watchdog.last = binary, time.monotonic()
            say(f"[{number}{of}] {name}: {binary.count or 'its'} tests; {done} of {total} are done")
        elif result and binary:
            watchdog.last = time.monotonic()
            seconds = binary.ended(result[1], result[2])
            if seconds is not None:
                times.append((seconds, f"{binary.name}: {result[1]}"))
        elif summary and binary:
            done += binary.done
            failures += [f"{binary.name}: {test}" for test in binary.failed]
            say(f"    {line.strip().removeprefix('test result: ')}")
        elif line.strip() and not line.startswith("running ") and "Finished `test`" not in line:
            say(line.rstrip())
    status = tests.wait()
    say(f"\nThe slowest {SLOWEST} of {done} tests:")
    for seconds, test in sorted(times, reverse=True)[:SLOWEST]:
        say(f"  {seconds:6.1f} s  {test}")
    for test in failures + watchdog.killed:
        say(f"FAILED {test}")
    took = time.monotonic() - begin
    say(f"{done} tests in {took // 60:.0f} min {took % 60:.0f} s: {'passed' if status == 0 else 'FAILED'}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
