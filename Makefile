# Each target makes its own virtual environment in .venv where there is none. Needs Python 3.10 or 3.11 with pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3.10 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
CODE := schemas trainer serving clients deploy tests examples benchmarks bazel proto/generate.py setup.py triage_cli.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format proto build-files clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/package ## vignettes -> TFRecords -> trained agent -> SavedModel -> gRPC -> three triage decisions
	$(BIN)/python examples/demo.py

test: check ## format, lint, types and all tests but the long learning ones
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not learning"

test-all: check ## all tests, the long learning ones too
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/development ## format, lint and types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/mypy --config-file clients/python/pyproject.toml

format: $(VENV)/development ## format the code in place
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

proto: $(VENV)/development ## generate the Python code of the .proto files
	$(BIN)/python proto/generate.py
	$(BIN)/python clients/python/generate.py

build-files: | $(BIN)/python ## write the BUILD files of Bazel from the imports of the code
	$(BIN)/python bazel/build_files.py

clean: ## remove what the other targets made, the virtual environment too
	rm -rf $(VENV) build dist demo *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 12))' || \
	  { echo "dyqn-triage needs Python 3.10 or 3.11; name one, such as: make PYTHON=python3.11 demo" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/package: setup.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/development: setup.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ $(VENV)/package
