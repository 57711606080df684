# `make` lists all targets. A target's help is the text after its `##`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv

# Tests wait more than they compute, so there may be more of them at once than cores.
JOBS ?= 4
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages
READY := $(VENV)/.ready

# Keep byte code, even where an image turns that off: otherwise every process of the tests compiles all
# that it imports, which takes three times as long as to load it.
export PYTHONDONTWRITEBYTECODE :=

# What `make test-changed` compares with.
BASE ?= main

# The tool that makes requirements/dev.txt (everything, for the tests) and requirements/run.txt (what a
# deployment needs, at the same versions). It is needed only to change the lock files.
UV_VERSION := 0.13.7
LOCK_VENV := .lock-venv
LOCK := $(LOCK_VENV)/bin/uv pip compile --quiet pyproject.toml --extra postgres --extra azure --extra sendgrid --extra tracing \
  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'

# What is made says so in bold; what is already made says nothing.
say = @printf '\033[1m%s\033[0m\n'

.PHONY: help
help: ## Show this help
	@printf 'Postroom: a self-hosted email-list service.\n\n'
	@awk 'BEGIN { FS = ":.*## " } \
	      /^[a-z][a-z-]*:.*## / { printf "  \033[36mmake %-12s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Create .venv with every package locked by hash
	@:

# The lock file lists every package, so pip resolves nothing: for a package with extras, it would otherwise
# take a newer release than the locked one, and refuse it because it has no hash.
$(PACKAGES): requirements/dev.txt scripts/make-venv
	$(say) 'Setting up $(VENV)'
	@scripts/make-venv '$(PYTHON)' '$(VENV)'
	$(say) 'Installing Python packages, once: about a minute'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

# Postroom itself: its commands and its version are in pyproject.toml.
$(READY): $(PACKAGES) pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: services
services:
	@scripts/install-services

.PHONY: run
run: setup ## Install dependencies and start Postroom; ARGS='--port 8421' for another port
	@$(BIN)/postroom up $(ARGS)

.PHONY: test
test: setup services ## Run all tests, with the services they need
	@$(BIN)/pytest -n $(JOBS) --maxschedchunk 2 $(ARGS)

.PHONY: test-changed
test-changed: setup services ## Run the tests that belong to your changes since main; BASE=HEAD~1 for another base
	@tests=$$($(BIN)/python scripts/affected_tests.py '$(BASE)') \
	  && { test -n "$$tests" || { echo 'No test belongs to what has changed.'; exit 0; } \
	    && $(BIN)/pytest -n $(JOBS) --maxschedchunk 2 $$tests $(ARGS); }

.PHONY: test-long
test-long: setup services ## Run what takes too long for every change: five times the kills, use cases on Azurite
	@POSTROOM_LONG_TESTS=1 $(BIN)/pytest -n 2 tests/acceptance tests/contract tests/integration/usecases $(ARGS)

.PHONY: simulate
simulate: setup ## Simulate deliveries with faults: 10,000 seeds, or ARGS='--count 100000' or '--seed 123'
	@$(BIN)/python -m tests.simulation $(ARGS)

.PHONY: lint
lint: setup ## Check style, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@cd scripts && ../$(BIN)/mypy --config-file ../pyproject.toml *.py
	@$(BIN)/lint-imports

.PHONY: format
format: setup ## Fix and format the code
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

.PHONY: bench
bench: setup services ## Run the benchmarks, each next to a baseline of the same run
	@$(BIN)/python -m bench $(ARGS)

.PHONY: bench-full
bench-full: setup services ## Run the benchmarks with up to a million recipients; takes minutes
	@$(BIN)/python -m bench growth

SRC := src/postroom
PYBABEL := $(BIN)/pybabel --quiet

.PHONY: translations
translations: setup ## Update the catalogues of texts for subscribers
	@pot=$$(mktemp) && trap 'rm -f "$$pot"' EXIT \
	  && (cd $(SRC) && $(CURDIR)/$(PYBABEL) extract -F locales/babel.cfg --add-location=file -o "$$pot" .) \
	  && $(PYBABEL) update -i "$$pot" -d $(SRC)/locales --width 98 --no-fuzzy-matching \
	    --ignore-obsolete --ignore-pot-creation-date
	@$(PYBABEL) compile -d $(SRC)/locales --statistics

.PHONY: screenshots
screenshots: setup services ## Take the screenshots of the documentation again
	@$(BIN)/python scripts/screenshots.py

.PHONY: animation
animation: setup services ## Take the animation of the README again
	@$(BIN)/python scripts/animation.py

.PHONY: codemirror
codemirror: ## Bundle the code editor of the pages again, from scripts/codemirror
	@cd scripts/codemirror && npm ci --ignore-scripts --no-audit --no-fund --silent && npm run --silent build

.PHONY: gallery
gallery: setup services ## Take pictures of every page into build/gallery
	@$(BIN)/python -m tests.browser.gallery build/gallery $(ARGS)

.PHONY: lighthouse
lighthouse: setup services ## Run Lighthouse on three pages; fails below 95
	@$(BIN)/python scripts/lighthouse.py

.PHONY: docs
docs: setup ## Build the documentation into build/site, without a network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'Open build/site/index.html'

.PHONY: lock
lock: ## Lock the dependencies again; ARGS=--upgrade takes newer versions
	@test -x $(LOCK_VENV)/bin/uv || { $(PYTHON) -m venv $(LOCK_VENV) \
	  && $(LOCK_VENV)/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	$(say) 'Locking Python packages'
	@$(LOCK) --group dev --output-file requirements/dev.txt $(ARGS)
	@$(LOCK) --constraint requirements/dev.txt --output-file requirements/run.txt $(ARGS)
	$(say) 'Locking npm packages'
	@npm install --package-lock-only --silent >/dev/null && touch package-lock.json

# Apart from .venv, as uv is: these tools look at what is installed, and are no part of it.
AUDIT_VENV := .audit-venv
AUDIT_TOOLS := cyclonedx-bom==7.5.0 pip-audit==2.10.1

.PHONY: audit
audit: setup ## Write a bill of materials (CycloneDX) and search for known vulnerabilities
	@test -x $(AUDIT_VENV)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT_VENV) \
	  && $(AUDIT_VENV)/bin/pip install --quiet --disable-pip-version-check $(AUDIT_TOOLS); }
	@$(BIN)/python scripts/audit.py $(AUDIT_VENV)/bin

.PHONY: clean
clean: ## Remove everything that can be built again
	@rm -rf $(VENV) $(LOCK_VENV) $(AUDIT_VENV) node_modules build dist .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
