# `make demo` shows it, `make test` checks it; both set up .venv first and need nothing but
# Python, Java and Maven.

SHELL := /bin/bash
ROOT := $(CURDIR)
VENV := $(ROOT)/.venv
PYTHON := $(VENV)/bin/python
SOURCES := $(shell find pipeline redactors schemas -type f -not -path '*/__pycache__/*')
# Nothing but the installed wheel may answer to `import pipeline`.
unexport PYTHONPATH

.PHONY: demo test lint bench crash docs sbom audit setup tools jars broker-jars browser prometheus \
  vectors clean
.DEFAULT_GOAL := test

demo: broker-jars
	$(VENV)/bin/redactory demo

test: lint setup
	set -o pipefail; cd "$$(mktemp -d)" && $(PYTHON) -P -m pytest -c $(ROOT)/pyproject.toml \
	  --rootdir $(ROOT) $(ROOT)/tests

lint: $(VENV)/.dependencies
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# The long forms: every kill point many times over, hour by hour retention, 100,000 variants; hours.
crash: setup
	cd "$$(mktemp -d)" && $(PYTHON) -P -m pytest -c $(ROOT)/pyproject.toml \
	  --rootdir $(ROOT) -m full $(ROOT)/tests

bench: setup
	cd "$$(mktemp -d)" && for each in $(ROOT)/benchmarks/bench_*.py; do \
	  $(PYTHON) "$$each" || exit 1; done

# Builds the site into dist/site; a link that leads nowhere fails it.
docs: setup
	$(VENV)/bin/mkdocs build --strict

# What the container image is made of, as CycloneDX.
sbom: $(VENV)/.dependencies
	mkdir -p dist
	$(VENV)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  deploy/container/requirements.txt > dist/redactory.cdx.json

# Known vulnerabilities of what it is made of.  It asks a service on the network, so no test runs it.
audit: $(VENV)/.dependencies
	$(VENV)/bin/pip-audit --require-hashes --disable-pip -r deploy/container/requirements.txt

setup: $(VENV)/.wheel jars

tools:
	@missing=""; \
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || missing="$$missing, Python 3.11 or newer (python3)"; \
	version=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	[ "$${version:-0}" -ge 17 ] || missing="$$missing, Java 17 or newer (java)"; \
	command -v mvn >/dev/null || missing="$$missing, Maven (mvn)"; \
	[ -z "$$missing" ] || { echo "Please install what is missing:$${missing#,}." >&2; exit 1; }

# pip checks every file against the hashes in constraints.txt.
$(VENV)/.dependencies: constraints.txt | tools
	[ -x $(PYTHON) ] || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --require-hashes -r constraints.txt
	touch $@

$(VENV)/.wheel: $(VENV)/.dependencies pyproject.toml README.md LICENSE $(SOURCES)
	rm -rf dist
	$(PYTHON) -m hatchling build -t wheel -d dist
	$(PYTHON) -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	touch $@

# The demo needs a broker only; the tests also a schema registry.
jars: broker-jars
	@$(PYTHON) -P tests/apicurio/registry.py

broker-jars: $(VENV)/.wheel
	@$(VENV)/bin/redactory broker fetch >/dev/null

# What an emitter in any language must do, as data.
vectors: $(VENV)/.dependencies
	PYTHONPATH=$(ROOT) $(PYTHON) tests/conformance.py

# In it the page of a run is tested; without it that test is skipped.
browser:
	.ci/browser

# It loads the alert rules in the tests; without it those tests are skipped.
prometheus:
	.ci/prometheus

clean:
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
