# `make demo` and `make test` install what they need, into .venv. `make test` takes minutes, `make test-deep` hours.

PYTHON ?= python3
VENV ?= .venv
# Versions to test with, other than the newest: make test PINS='jax==0.7.1 jaxlib==0.7.1'
PINS ?=

BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# Part of the deep tests, for the targets with -deep: one in N, always the same ones.
SLICE ?= 0/1

.PHONY: demo test test-deep test-pytensor test-pytensor-deep lint docs site notebooks gallery bench release clean

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
	$(BIN)/python docs/repairs.py

# The site, in build/site. It fails if a link leads nowhere, or if a page would load from elsewhere.
site: $(VENV)/with-site
	rm -rf build/site
	$(BIN)/python -m sphinx --fresh-env --quiet --fail-on-warning --keep-going docs build/site
	$(BIN)/python docs/check_site.py build/site

notebooks: $(VENV)/with-test
	$(BIN)/python docs/notebooks.py build/notebooks

# The pictures of the gallery, made anew; each script takes about a minute.
gallery: $(VENV)/with-test
	for page in docs/gallery/*.png; do name=$$(basename $$page .png); \
	  $(BIN)/python examples/$$name.py --plot $$page || exit 1; done

bench: $(VENV)/with-bench
	$(BIN)/python benchmarks/bench.py --page

# Builds dist/, checks it, and runs the README with the wheel on each stack.
release:
	bash .ci/release

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
