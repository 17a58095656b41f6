# normscope: `make report` and `make test` set up everything they need in .venv, once.

PYTHON ?= python3
INPUT ?= sample
OUT ?=
export INPUT OUT PYTHON

VENV_PYTHON := .venv/bin/python
PIP := $(VENV_PYTHON) -m pip install -qq --disable-pip-version-check --no-input
READY_TO_RUN := .venv/.ready-to-run
READY_TO_DEVELOP := .venv/.ready-to-develop
# PyTorch, a large download: where every test must run, as in continuous integration.
READY_TO_PROFILE := $(if $(NORMSCOPE_REQUIRE_ALL),.venv/.ready-to-profile)

.NOTPARALLEL:
.PHONY: help report test lint bench fuzz schemas clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

report: $(READY_TO_RUN) ## Report on the bundled sample, or on INPUT=trace.json.gz into OUT=folder
	@.venv/bin/normscope report "$$INPUT" $${OUT:+--out "$$OUT"}

test: $(READY_TO_PROFILE) lint ## Run lint, type check and all tests
	@$(VENV_PYTHON) -m pytest --numprocesses auto --dist loadfile

lint: $(READY_TO_DEVELOP) ## Check style, formatting and types
	@$(VENV_PYTHON) -m ruff check
	@$(VENV_PYTHON) -m ruff format --check
	@$(VENV_PYTHON) -m mypy

bench: $(READY_TO_DEVELOP) ## Measure the speed against its bounds
	@$(VENV_PYTHON) bench/run.py

fuzz: $(READY_TO_DEVELOP) ## Feed damaged traces to the reader, for FUZZ_SECONDS (180)
	@$(VENV_PYTHON) tests/fuzz_traces.py

schemas: $(READY_TO_DEVELOP) ## Write the JSON Schemas anew from the models
	@$(VENV_PYTHON) -m normscope.schemas

clean: ## Remove .venv, caches and builds; reports in outputs/ stay
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV_PYTHON):
	@command -v "$$PYTHON" > /dev/null \
		|| { echo "There is no '$$PYTHON' here; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "normscope needs Python 3.11 or newer, and '$$PYTHON' is older; name another: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up .venv; this takes a minute or two, once." >&2
	@"$$PYTHON" -m venv .venv || { rm -rf .venv; exit 1; }

$(READY_TO_RUN): pyproject.toml | $(VENV_PYTHON)
	@$(PIP) --upgrade pip
	@$(PIP) --editable .
	@touch $@

$(READY_TO_DEVELOP): pyproject.toml $(READY_TO_RUN)
	@$(PIP) --group dev
	@touch $@

.venv/.ready-to-profile: pyproject.toml $(READY_TO_DEVELOP)
	@$(PIP) --group torch
	@touch $@
