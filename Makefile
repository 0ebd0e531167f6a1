# `make demo` and `make test` do all set-up by themselves, in .venv. `make help` lists the rest.

HOST ?= 127.0.0.1
PORT ?= 8000
ARGS ?=

RUN := .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo demo-cluster test lint bench faults clean

help:
	@echo 'make demo          the demo on http://$(HOST):$(PORT); elsewhere: make demo PORT=8123'
	@echo "                   more of it: make demo ARGS='--latency 0.2 --catalogue products.csv' (ARGS=--help)"
	@echo 'make demo-cluster  the same from three worker processes that share a Redis'
	@echo 'make test          every test; make test ARGS="tests/test_jobs.py -x" runs some'
	@echo 'make lint          formatting, types and layers'
	@echo 'make bench         every benchmark, with its table; make bench ARGS=--quick for a look'
	@echo 'make faults        the long form of the fault suite'
	@echo 'make clean         remove .venv and all that was made'

demo: .venv/.ready-demo
	@$(RUN) app.py --host $(HOST) --port $(PORT) $(ARGS)

demo-cluster: .venv/.ready-cluster
	@$(RUN) app.py --host $(HOST) --port $(PORT) --workers 3 $(ARGS)

test: .venv/.ready-test
	$(RUN) -m pytest $(ARGS)

faults: .venv/.ready-test
	ASYNCTASK_FAULTS=long $(RUN) -m pytest tests/faults $(ARGS)

lint: .venv/.ready-lint tests/browser/node_modules/.package-lock.json
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	.venv/bin/lint-imports
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(RUN) -m pyright --verifytypes asynctask --ignoreexternal
	tests/browser/node_modules/.bin/tsc --project tests/browser

bench: .venv/.ready-bench
	$(RUN) -m benchmarks $(ARGS)

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf .coverage htmlcov tests/browser/node_modules tests/browser/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp for each dependency group of pyproject.toml, made last. What breaks off leaves `.unfinished` behind,
# and a virtual environment that is unfinished, or whose Python is gone, is made anew.
ifneq ($(shell test ! -e .venv/.unfinished && $(RUN) -c '' 2>/dev/null && echo sound),sound)
.PHONY: .venv/.made
endif

.venv/.ready-%: pyproject.toml .venv/.made
	@echo "Installing what 'make $*' needs into .venv …"
	@touch .venv/.unfinished
	@$(RUN) -m pip install --quiet --editable . --group $*
	@rm .venv/.unfinished
	@touch $@

# What the browser tests and the type check of static/ need from npm; npm writes this file last.
tests/browser/node_modules/.package-lock.json: tests/browser/package-lock.json
	@cd tests/browser && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

.venv/.made:
	@set -e; python=; \
	for name in $(if $(PYTHON),'$(PYTHON)',python3.13 python3.12 python3.11 python3 python); do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "make: Python 3.11 or later is needed$(if $(PYTHON), and '$(PYTHON)' is none); name one: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	  echo "make: $$python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	fi; \
	echo "Making .venv with $$python …"; \
	rm -rf .venv; mkdir .venv; touch .venv/.unfinished; \
	"$$python" -m venv .venv; \
	$(RUN) -m pip install --quiet --upgrade 'pip>=25.1'; \
	rm .venv/.unfinished; touch $@
