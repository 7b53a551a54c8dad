#!/bin/sh
# Compiles our own crates with counters of what runs: `RUSTC_WORKSPACE_WRAPPER` of `fuzz.py coverage`. All others stay as `make test` built them.
exec "$@" -Cinstrument-coverage
