# `make demo` and `make test` install what they need, into .venv. `make test` takes minutes, `make test-deep` hours.

PYTHON ?= python3
VENV ?= .venv
# Versions to test with, other than the newest: make test PINS='jax==0.7.1 jaxlib==0.7.1'
PINS ?=

BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# Part of the deep tests, for the targets with -deep: one in N, always the same ones.
SLICE ?= 0/1

.PHONY: demo test test-deep test-pytensor test-pytensor-deep lint docs bench clean

demo: $(VENV)/with-test
	$(BIN)/python examples/logistic_regression.py

test: $(VENV)/with-test
	$(PYTEST)

test-deep: $(VENV)/with-test
	$(PYTEST) --deep --slice $(SLICE)

test-pytensor: $(VENV)/with-pytensor
	$(PYTEST) tests/pytensor $(wildcard tests/pymc)

test-pytensor-deep: $(VENV)/with-pytensor
	$(PYTEST) --deep --slice $(SLICE) tests/pytensor $(wildcard tests/pymc)

lint: $(VENV)/with-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/with-test
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python docs/build.py
	$(BIN)/python docs/coverage.py

bench: $(VENV)/with-bench
	$(BIN)/python benchmarks/bench.py --page

# The package and one of its dependency groups; again when pyproject.toml changes.
$(VENV)/with-%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'jaxprgen needs Python 3.11 or newer. Name one: make PYTHON=python3.12' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' # the first with --group
	$(BIN)/python -m pip install --quiet --editable . $(PINS) --group $*
	@touch $@

clean:
	rm -rf $(VENV) .aesara .pytensor .jax .hypothesis .pytest_cache .ruff_cache build dist
	find jaxprgen tests examples -name __pycache__ -prune -exec rm -rf {} +
