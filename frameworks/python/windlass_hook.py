"""Hooks in Python: a configuration, and a function that is called for each binding context.

    import windlass_hook

    def handle(context):
        context.values_patch("add", "/myModule/replicas", 2)

    windlass_hook.run({"configVersion": "v1", "beforeHelm": 1}, handle)
"""

import json
import os
import sys


class Context:
    """A binding context, and what a hook may answer to it."""

    def __init__(self, data):
        self.data = data
        self.binding = data["binding"]
        self.type = data.get("type", "")
        self.snapshots = data.get("snapshots", {})

    def __getitem__(self, key):
        return self.data[key]

    def get(self, key, default=None):
        return self.data.get(key, default)

    def values(self):
        return _read("VALUES_PATH")

    def config_values(self):
        return _read("CONFIG_VALUES_PATH")

    def values_patch(self, op, path, value=None):
        _patch("VALUES_JSON_PATCH_PATH", op, path, value)

    def config_values_patch(self, op, path, value=None):
        _patch("CONFIG_VALUES_JSON_PATCH_PATH", op, path, value)

    def metric(self, name, **fields):
        """An operation on a metric, e.g. metric("pods", set=3, labels={"zone": "a"})."""
        _append("METRICS_PATH", {"name": name, **fields})

    def kubernetes(self, operation, **fields):
        """An operation on an object, e.g. kubernetes("Delete", kind="Pod", namespace="n", name="p")."""
        _append("KUBERNETES_PATCH_PATH", {"operation": operation, **fields})

    def admit(self, allowed, message="", warnings=(), patch=None):
        answer = {"allowed": allowed, "message": message, "warnings": list(warnings)}
        if patch is not None:
            answer["patch"] = patch
        _append("ADMISSION_RESPONSE_PATH", answer)

    def converted(self, objects):
        _append("CONVERSION_RESPONSE_PATH", {"convertedObjects": list(objects)})


def _read(variable):
    with open(os.environ[variable], encoding="utf-8") as file:
        return json.load(file)


def _append(variable, document):
    with open(os.environ[variable], "a", encoding="utf-8") as file:
        file.write(json.dumps(document) + "\n")


def _patch(variable, op, path, value):
    operation = {"op": op, "path": path}
    if op != "remove":
        operation["value"] = value
    _append(variable, operation)


def run(config, handle):
    """Answers `--config`, or calls `handle` for each context."""
    if "--config" in sys.argv[1:]:
        print(json.dumps(config))
        return
    for data in _read("BINDING_CONTEXT_PATH"):
        handle(Context(data))
