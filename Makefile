# Each target creates the virtual environment .venv if it is missing. Needs Python 3.10 or 3.11 with pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3.10 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
CODE := schemas triage_runtime trainer serving dyqn_triage clients deploy distributions docs tests examples benchmarks bazel proto/generate.py setup.py \
        triage_cli.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format proto docs results screenshots transcripts sbom dist clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/package ## vignettes -> TFRecords -> trained agent -> SavedModel -> gRPC -> three decisions and an interview
	PYTHONDONTWRITEBYTECODE= PYTHONWARNINGS=ignore::SyntaxWarning $(BIN)/python examples/demo.py

QUICK_XLA := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
             --xla_cpu_use_fusion_emitters=false
# Tests compile many graphs and run each for a few steps: here without the expensive optimisations of XLA and of
# TensorFlow's graphs (QUICK_GRAPHS), and an operation in one thread (threads of OpenBLAS and OpenMP spin while they wait
# for a core); in test-all as for users. Bytecode is kept, as both workers would compile all modules again.
QUICK := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 QUICK_GRAPHS=1 \
         PYTHONDONTWRITEBYTECODE= XLA_FLAGS="$(QUICK_XLA)"
test: check ## format, lint, types, and all tests except the slow ones
	$(QUICK) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(VENV)/development-all check ## all tests, including the slow ones
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/development ## format, lint and types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(shell $(BIN)/python -c 'import sys; sys.version_info >= (3, 11) and print("--cache-dir=.mypy_cache")')
	$(BIN)/mypy --config-file clients/python/pyproject.toml

format: $(VENV)/development ## format the code in place
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

proto: $(VENV)/development ## generate the Python code from the .proto files
	$(BIN)/python proto/generate.py
	$(BIN)/python clients/python/generate.py

docs: $(VENV)/documentation ## the documentation as a site, in build/site; warnings are errors
	$(BIN)/python docs/site/package_picture.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open build/site/index.html, or run: $(BIN)/python -m http.server --directory build/site"

results: $(VENV)/package ## docs/results.md and its plots, from the records of benchmarks in benchmarks/results
	$(BIN)/python benchmarks/page.py

screenshots: $(VENV)/development-all ## the pictures of pages in the documentation, of the demo's agent; needs Chromium
	$(BIN)/python docs/site/screenshots.py

transcripts: $(VENV)/package ## whole interviews of the demo's agent, to read, in tests/golden/transcripts.txt
	$(BIN)/python docs/site/transcripts.py

# In an environment of its own: the tool would bring other versions of packages that it lists.
SBOM := build/sbom/environment/bin
sbom: $(VENV)/package ## bills of materials of the distributions and of the serving image, in build/sbom
	"$(PYTHON)" -m venv build/sbom/environment
	$(SBOM)/python -m pip install --quiet --disable-pip-version-check "cyclonedx-bom>=7.5,<8"
	$(SBOM)/cyclonedx-py requirements --output-reproducible -o build/sbom/image.cdx.json deploy/serving/requirements.txt
	$(SBOM)/cyclonedx-py requirements --output-reproducible -o build/sbom/dyqn-triage-serving.cdx.json \
	  deploy/serving/requirements-litert.txt
	$(SBOM)/cyclonedx-py environment --output-reproducible -o build/sbom/dyqn-triage.cdx.json $(BIN)/python

dist: $(VENV)/development-all ## what a package index takes: all distributions, checked, with release notes
	rm -rf dist
	$(BIN)/python distributions/release.py

clean: ## remove everything the other targets made, including the virtual environment
	rm -rf $(VENV) build dist demo *.egg-info distributions/serving/build distributions/serving/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 12))' || \
	  { echo "dyqn-triage needs Python 3.10 or 3.11; name one, such as: make PYTHON=python3.11 demo" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# What pip does not compile is compiled when it is first imported, which is a small part of it, and kept: so the demo and
# the tests write bytecode whatever the environment says. Compiling TF-Agents warns about its syntax.
INSTALL = @echo "installing into $(VENV), about a minute"; \
  $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable "$(1)" || \
  { echo "pip could not install the packages that setup.py names: can this machine reach a package index?" >&2; exit 1; }
$(VENV)/package: setup.py | $(BIN)/python
	$(call INSTALL,.)
	@touch $@

$(VENV)/development: setup.py | $(BIN)/python
	$(call INSTALL,.[dev])
	@touch $@ $(VENV)/package

$(VENV)/development-all: setup.py | $(BIN)/python
	$(call INSTALL,.[dev-all])
	@touch $@ $(VENV)/development $(VENV)/package

$(VENV)/documentation: setup.py | $(BIN)/python
	$(call INSTALL,.[docs])
	@touch $@ $(VENV)/package
