# Each target is one line to the real thing. `make run` and `make test` are all that a newcomer needs.

.PHONY: run test test-fast deny audit dist matrix crash scale bench-hooks bench-kustomize bench-helmfile bench-helmreleases bench-clusters bench-charts bench-reload faults module-sdk lint package corpus bench differential fuzz fuzz-coverage fixtures fixtures-helmfile fixtures-helm-controller fixtures-keel fixtures-reloader fixtures-sops peers tools helms beside-flux prerequisites programs

# Built once, on github.com/deckhouse/module-sdk.
MODULE_SDK_PROGRAM := $(CURDIR)/.cache/module-sdk/program

# A control plane (or your cluster: WINDLASS_TEST_KUBECONFIG=FILE), the operator on modules/, and a list of things to try.
run: prerequisites
	tests/run.sh

test: prerequisites programs
	tests/progress.py --workspace --no-fail-fast

# The tests that need no control plane.
test-fast: prerequisites programs
	tests/progress.py --workspace --no-fail-fast --lib --test answers --test binary --test commands --test fixtures --test frameworks \
		--test fuzz --test helmfile --test ledger --test lint --test recorded --test replay --test seeded --test tidy

# Helm 3, Helm 4 and ours in all 243 orders on one release, and pairwise on six charts of the corpus, where it is at hand: how
# many came out differently than with Helm 4 alone.
matrix: prerequisites
	cargo test --test cli -- --ignored --nocapture --test-threads 1 matrix

# Kills windlass N times at random requests, operators of HelmReleases, HelmCharts, charts' kinds and ChartResources as often each, lets
# requests fail as often, and asks again each time: prints what was left.
N ?= 200
SEED ?= 1
crash: prerequisites
	N=$(N) SEED=$(SEED) cargo test --test faults -- --ignored --nocapture --test-threads 1 again

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# The libraries as others would get them: packed, and built from the packages alone. cargo keeps what it unpacked for an earlier run in this
# folder, and would build that.
package:
	rm -rf $${CARGO_HOME:-$$HOME/.cargo}/registry/src/-*/chart-compat-* $${CARGO_HOME:-$$HOME/.cargo}/registry/src/-*/kustomize-compat-*
	cargo publish --dry-run --quiet --allow-dirty -p chart-compat -p kustomize-compat

# Every case of the chart corpus, where it is at hand, against the output of Helm 4 that it holds and that of a real Helm 3; and every
# kustomization of its corpus against kustomize's output.
corpus: prerequisites
	cargo test --workspace --no-run
	tests/corpus/run.sh target/debug/windlass
	tests/corpus/check.sh kustomize '$(CURDIR)/target/debug/windlass build {dir}'
	tests/corpus/check.sh helmfile '$(CURDIR)/target/debug/windlass helmfile'
	cargo test --workspace --test replay -- --ignored --nocapture corpus

bench: prerequisites helms
	cargo build --release --bin windlass
	cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/run.py
	cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/source.py
	[ ! -f ../shared/corpus/BENCH.md ] || cargo run --release -p windlass-peers -- charts ../shared/corpus target/release/windlass

# 300 modules with hooks, 10,000 objects that one hook watches, and what it costs to ask and run programs of many hooks.
bench-hooks: prerequisites helms $(MODULE_SDK_PROGRAM)
	cargo build --release --bin windlass
	BATCH_PROGRAM=$(MODULE_SDK_PROGRAM) cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/hooks.py

# 100 and 1,000 HelmReleases of a chart of three objects, beside helm-controller's recorded figures.
bench-helmreleases: prerequisites
	cargo build --release --bin windlass
	cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/helmreleases.py

# 500 HelmReleases of a chart with a library of 700 kB, of which half wait: speed, memory, log, stop.
bench-clusters: prerequisites
	cargo build --release --bin windlass
	cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/clusters.py

# 100 and 1,000 objects of a chart's kind, beside the recorded figures of operator-sdk's Helm operator.
bench-charts: prerequisites
	cargo build --release --bin windlass
	cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/charts.py

# 300 Deployments on 100 ConfigMaps: what it costs to follow them.
bench-reload: prerequisites
	cargo build --release --bin windlass
	cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/reload.py

# What an operator does while something outside is wrong, and afterwards: a matrix of faults and front ends.
FRONT_ENDS ?= helmreleases helmfiles modules
faults: prerequisites
	cargo build --bin windlass
	WINDLASS=$(CURDIR)/target/debug/windlass cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/faults.py $(FRONT_ENDS)

# The tests of batch programs with a program on github.com/deckhouse/module-sdk itself, from Go's module proxy. Builds it: some 3 minutes.
module-sdk: prerequisites programs $(MODULE_SDK_PROGRAM)
	WINDLASS_BATCH_PROGRAM=$(MODULE_SDK_PROGRAM) cargo test --test operator batch::

$(MODULE_SDK_PROGRAM): tests/tools/module-sdk/hooks/main.go tests/tools/module-sdk/go.sum
	cd tests/tools/module-sdk && go build -o $@ ./hooks

# One release of 5,000 objects and 100 of 5 beside Helm, and an operator with 1,000 releases that does nothing for a minute.
scale: prerequisites helms
	cargo build --release --bin windlass
	cargo run -p windlass-testing --bin control-plane -- run -- python3 tests/bench/scale.py

# `windlass build` beside kustomize's own program: a base and an overlay, a tree of 200 files, 1,000 and 4,000 objects, the corpus.
KUSTOMIZE ?= $(CURDIR)/.cache/kustomize
bench-kustomize: prerequisites $(KUSTOMIZE)
	cargo build --release --bin windlass
	KUSTOMIZE=$(KUSTOMIZE) python3 tests/bench/kustomize.py

$(CURDIR)/.cache/kustomize: tests/tools/kustomize/go.sum
	cd tests/tools/kustomize && go build -ldflags '-X sigs.k8s.io/kustomize/api/provenance.version=v5.8.1' -o $@ .

# How gtmpl, gotmpl and serde_yaml answer what Go answers, and how fast, beside Go and ours.
peers: prerequisites
	cargo run --release -p windlass-peers

# Asks Helm's own code and ours COUNT generated questions of each family, and prints where they differ: make differential SEED=7
COUNT ?= 100000
FAMILIES ?=
differential: prerequisites
	cargo run --profile checked -p windlass-differential -- $(COUNT) $(SEED) $(FAMILIES)

# Feeds every reader of outside bytes for SECONDS each, led by coverage: nothing may panic, hang or eat the machine. TARGET is one of them.
SECONDS ?= 300
fuzz:
	tests/fuzz/fuzz.py run --seconds $(SECONDS) $(if $(TARGET),--target "$(TARGET)")

# The lines of each reader that the inputs of `make fuzz` reach. Needs `rustup component add llvm-tools`.
fuzz-coverage:
	tests/fuzz/fuzz.py coverage $(if $(TARGET),--target "$(TARGET)")

# Records anew what Go's own template engine, YAML, Helm's functions, gojq, cron and kstatus answer,
# what kustomize makes of manifests, what Flux's CRDs say and what Helm prints for the fixture charts.
fixtures: prerequisites
	cd tests/tools/go && go run . ../../../fixtures
	cd tests/tools/hooks && go run . ../../../fixtures
	cd tests/tools/readiness && go run . ../../../fixtures
	cd tests/tools/postrender && go run . ../../../fixtures/post-render
	cd tests/tools/client-apply && go run . schema ../../../crates/windlass-engine/src/client_apply/merge_schema.txt && go run . record ../../../fixtures/client-apply
	cd tests/tools/flux-values && go run . > ../../../fixtures/flux-values/cases.jsonl
	cd tests/tools/flux-values && go run . digests > ../../../fixtures/flux-values/digests.jsonl
	cd tests/tools/flux-api && go run . ../../../fixtures/flux-api
	cd tests/tools/flux-notify && go run . > ../../../fixtures/flux-notify/requests.jsonl
	cd tests/tools/postrender && go run . tables ../../../kustomize-compat/src/schema/tables.rs
	cd tests/tools/kustomize && go run . tables ../../../kustomize-compat/src/fieldspec/builtin.rs
	cd tests/tools/kustomize && go run . type-names ../../../kustomize-compat/src/schema/names.rs
	cd tests/tools/kustomize && go run -ldflags '-X sigs.k8s.io/kustomize/api/provenance.version=v5.8.1' . record ../../../fixtures/kustomize
	cd tests/tools/kustomize && go run . generate ../../../fixtures/kustomize-generated 100 20001
	cd tests/tools/kustomize && go run -ldflags '-X sigs.k8s.io/kustomize/api/provenance.version=v5.8.1' . record ../../../fixtures/kustomize-generated
	cargo test --test fixtures -- --ignored --exact record
	cargo test --test lint -- --ignored --exact record
	cargo test --test commands -- --ignored --exact record

# Records anew what helmfile prints for its fixtures. Builds helmfile: some 8 minutes.
HELMFILE ?= $(CURDIR)/.cache/helmfile
fixtures-helmfile: prerequisites $(HELMFILE) $(KUSTOMIZE)
	HELMFILE=$(HELMFILE) KUSTOMIZE=$(KUSTOMIZE) cargo test --test helmfile -- --ignored --exact record

$(CURDIR)/.cache/helmfile: tests/tools/helmfile/go.sum
	cd tests/tools/helmfile && go build -ldflags '-X go.szostok.io/version.version=1.8.0' -o $@ github.com/helmfile/helmfile

# Records anew what Flux's helm-controller ends with for the cases of fixtures/helm-controller. Builds it: some 10 minutes.
fixtures-helm-controller: prerequisites
	cargo build --bin windlass
	cargo run -p windlass-testing --bin control-plane -- run -- tests/tools/helm-controller/record.py \
		"$$(cargo run --quiet -p windlass-testing --bin control-plane -- tools HelmController | sed 's/^HelmController=//')" \
		target/debug/windlass fixtures/helm-controller/cases.json fixtures/helm-controller/results.json

# Records anew which workloads Reloader rolls out for the cases of fixtures/reloader. RELOADER: its program, built from its source (1.4.21).
fixtures-reloader: prerequisites
	cargo run -p windlass-testing --bin control-plane -- run -- tests/tools/reloader/record.py $(RELOADER) fixtures/reloader/cases.json fixtures/reloader/results.json

# Records anew which tags keel's policies choose. KEEL_SOURCE: a checkout of keel (at its commit of 2026-08-21), into which the recorder is copied.
fixtures-keel:
	mkdir -p $(KEEL_SOURCE)/cmd/record-policies
	cp tests/tools/keel/record.go $(KEEL_SOURCE)/cmd/record-policies/main.go
	cd $(KEEL_SOURCE) && go run ./cmd/record-policies < $(CURDIR)/fixtures/keel/cases.json > $(CURDIR)/fixtures/keel/results.jsonl

# Encrypts and decrypts the files of fixtures/sops anew, with new keys. Builds sops and age: some 3 minutes.
SOPS_TOOLS := $(CURDIR)/.cache/sops
fixtures-sops: $(SOPS_TOOLS)/sops
	tests/tools/sops/record.sh $(SOPS_TOOLS)

$(SOPS_TOOLS)/sops: tests/tools/sops/go.sum
	mkdir -p $(SOPS_TOOLS)
	cd tests/tools/sops && go build -o $(SOPS_TOOLS)/ tool

# `windlass helmfile` beside helmfile with Helm: `list` and `template` of 30 releases; with HELM_DIFF, the directory of the plugin helm-diff,
# `diff` and `apply` too.
HELM_DIFF ?=
bench-helmfile: prerequisites helms $(HELMFILE)
	cargo build --release --bin windlass
	HELMFILE=$(HELMFILE) HELM_DIFF=$(HELM_DIFF) \
		HELM=$$(cargo run --quiet -p windlass-testing --bin control-plane -- tools Helm4 | sed 's/^Helm4=//') \
		$(if $(HELM_DIFF),cargo run -p windlass-testing --bin control-plane -- run --) python3 tests/bench/helmfile.py

CARGO_TOOLS := .cache/cargo-tools/bin

# Licences, sources, banned and duplicate crates (deny.toml).
deny: $(CARGO_TOOLS)/cargo-deny
	$(CARGO_TOOLS)/cargo-deny --all-features check licenses bans sources

# Known vulnerabilities. Fetches the RustSec database to ~/.cargo/advisory-dbs; with OFFLINE=1 takes what lies there.
audit: $(CARGO_TOOLS)/cargo-deny
	$(CARGO_TOOLS)/cargo-deny $(if $(OFFLINE),--offline) --all-features check advisories

# The release binary, its SHA-256 and what it is made of (CycloneDX), in dist/.
dist: $(CARGO_TOOLS)/cargo-cyclonedx
	cargo build --profile dist --locked --bin windlass
	$(CARGO_TOOLS)/cargo-cyclonedx cyclonedx --quiet --format json --spec-version 1.5 --describe binaries --no-build-deps
	mkdir -p dist
	mv windlass_bin.cdx.json dist/windlass.cdx.json
	rm -f tests/*/*_bin.cdx.json
	cp target/dist/windlass dist/windlass
	cd dist && sha256sum windlass windlass.cdx.json > SHA256SUMS

# Cargo's own tools, pinned and built once into the cache; without optimisation, since they run for a second.
$(CARGO_TOOLS)/cargo-deny:
	cargo install --locked --quiet --profile dev --root .cache/cargo-tools cargo-deny@0.20.2
$(CARGO_TOOLS)/cargo-cyclonedx:
	cargo install --locked --quiet --profile dev --root .cache/cargo-tools cargo-cyclonedx@0.5.9

# The Helms of a benchmark are built before it.
helms: prerequisites
	cargo run -p windlass-testing --bin control-plane -- tools Helm4 Helm3

# Windlass beside Flux's own source-controller, which is built once; that takes some minutes.
beside-flux: prerequisites
	cargo run -p windlass-testing --bin control-plane -- tools SourceController
	cargo test --test helmrelease -- --ignored --nocapture beside_flux

tools: prerequisites
	cargo run -p windlass-testing --bin control-plane -- tools

prerequisites:
	@command -v cargo >/dev/null || { echo "Rust is missing: install a toolchain of at least 1.95 (cargo, rustc)"; exit 1; }
	@command -v go >/dev/null || { echo "Go is missing: install at least 1.26; the test control plane is built with it"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing: install gcc or clang; the TLS library is built with it"; exit 1; }

# What tests run beside: hooks in bash and Python, charts from Git, over SSH too, signatures by GnuPG.
programs:
	@for program in bash python3 git gpg ssh ssh-keygen; do \
	  command -v $$program >/dev/null || { echo "$$program is missing: tests run it; install it"; exit 1; }; \
	done
