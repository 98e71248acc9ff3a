# `make demo` and `make test` set up by themselves what they need: a virtual environment in .venv with the versions of
# constraints.txt, renewed when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The extras that the demo needs, and those that tests and documentation do.
DEMO := gp,mesh,plot
TEST := $(DEMO),areal,interactive,bo,distributed,euclidean,terms,pyg,test,docs
READY_DEMO := $(VENV)/.ready-demo
READY := $(VENV)/.ready-test
# Data beside a checkout is found by itself; elsewhere set GRAPHRF_DATA_DIR or let graphrf download it.
ifneq ($(wildcard ../shared/data),)
GRAPHRF_DATA_DIR ?= $(abspath ../shared/data)
export GRAPHRF_DATA_DIR
endif

PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
# uv is quicker where it is there. It knows nothing of pip's settings, by which a machine may find torch without CUDA
# (200 MB for 3 GB), so pip installs torch, first, and the rest where uv cannot.
UV := $(shell command -v uv 2>/dev/null)
install = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python -c constraints.txt $(1) || )$(PIP) $(1)

# Compiled modules and tests are kept whatever the environment says: each process would compile them again.
unexport PYTHONDONTWRITEBYTECODE

# A worker for each core, of one thread each: threads of torch that wait for a core take it from the others. Files in
# their order, the long ones of examples first.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --no-loadscope-reorder
# Examples of the first pages are run by tests/package/test_first_examples.py, as after their install command.
EVERYTHING := --doctest-modules --doctest-glob='*.md' --ignore=docs/index.md --ignore=docs/start.md docs tests graphrf
# Folders of which all is left to `make test-more`: their imports, such as those of torch_geometric, take seconds,
# and tutorials fit whole models.
LEFT_OUT := --ignore=tests/examples --ignore=docs/tutorials
# What depends on the last bits of BLAS: not files and arguments, what torch computes with its own BLAS, and what draws
# of the prior are held to, which no last bit moves.
NUMERICAL := tests/euclidean tests/gp tests/kernels tests/couplings tests/numerics tests/operators --doctest-glob='*.md' docs/theory \
	$(addprefix --ignore=tests/gp/,files torch test_bad_input.py test_calibration.py test_estimators.py test_honest_intervals.py \
	test_scikit_learn.py model/test_likelihoods.py time/test_claims.py) --ignore=tests/euclidean/test_estimators.py

.PHONY: help demo test test-more test-full lint style types architecture docs tests rehearsal more test-browser test-neighbours test-bridges test-package release clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       a report of what graphrf does, in out/report.html"
	@echo "make test       what a change must pass: lint, types, documentation, examples, quick tests (some minutes)"
	@echo "make test-more  the other tests, with more inputs and another BLAS kernel too"
	@echo "make test-full  all tests, those of hours too"
	@echo "make test-bridges  fields in PyMC, Bambi and NumPyro (some ten minutes)"
	@echo "make docs       the documentation, in out/site"
	@echo "make release    what is uploaded, checked: sdist, wheel and notes, in out/release"
	@echo "make clean      remove what these have made"

$(READY_DEMO): pyproject.toml constraints.txt
	@echo "Setting up 1: a virtual environment in $(VENV) (some seconds)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up 2: torch and what it needs (1 to 3 minutes)"
	@$(PIP) torch
	@echo "Setting up 3: graphrf[$(DEMO)] and about 40 packages (1 to 2 minutes)"
	@$(call install,-e '.[$(DEMO)]')
	@touch $@

$(READY): $(READY_DEMO)
	@echo "Setting up 4: graphrf[$(TEST)], about 60 packages more (1 to 2 minutes)"
	@$(call install,-e '.[$(TEST)]')
	@echo "Setting up 5: compiling loops and tests, and reading the types of other libraries (1 to 2 minutes)"
	@$(BIN)/graphrf compile
	@$(BIN)/python -m pytest -q --collect-only $(EVERYTHING) > /dev/null
	@$(BIN)/mypy -c "import numpy, torch" > /dev/null || true
	@touch $@

demo: $(READY_DEMO)
	$(BIN)/graphrf demo --out out $(ARGS)

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy -p graphrf

# Sizes, branches and paths of the Gaussian processes, beside their limits.
architecture: $(READY)
	$(BIN)/python checks/architecture.py

lint: style types architecture

# The site, into out/site; warnings, and links that lead nowhere, are errors (with --quiet, mkdocs would not count them).
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

tests: $(READY)
	$(PYTEST) -m "not more and not full" --durations=10 $(LEFT_OUT) $(EVERYTHING)

# Types and documentation are looked at while the tests begin.
test: style
	@$(MAKE) --no-print-directory -j4 types docs architecture tests

# What `make test` leaves out (tests/support/quick.py says what, and why), and those that are given inputs with more of
# these; before, one case of each quick test that computes, with another BLAS kernel, on two threads; beside them, a
# rehearsal of the GPU check.
test-more: $(READY)
	@$(MAKE) --no-print-directory -j2 rehearsal more

# The GPU check on the CPU, with small sizes: its parts in one process, which imports torch once.
rehearsal: $(READY)
	PYTHON=$(BIN)/python bash checks/gpu.sh --device cpu --parts machine tests
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/device.py --device cpu --nodes 2500 --observed 600 --large 10000 --walks 8 \
		--parts bits walks features products pagerank gp large

more: $(READY)
	@other="$$($(BIN)/python -m tests.support.other_blas)"; test -z "$$other" || \
		env $$other OPENBLAS_NUM_THREADS=2 $(PYTEST) -m one $(NUMERICAL)
	$(PYTEST) -m "(more or hypothesis) and not full" --hypothesis-profile=more --durations=10 --doctest-glob='*.md' docs/tutorials tests

test-full: lint docs
	$(PYTEST) --hypothesis-profile=full $(EVERYTHING)

# The site and the demo's report in a real browser: Chromium, on the PATH or in CHROMIUM.
test-browser: docs demo
	$(PIP) -e '.[browser]'
	$(BIN)/python -m pytest tests/package/test_browser_check.py
	$(BIN)/python checks/browser.py --site out/site --report out/report.html --screenshots out/screenshots

# Test suites of other libraries, on graphrf, and graphrf with other libraries: docs/neighbours.md has what they say.
# It installs these libraries, GeometricKernels in an environment of its own, since it needs numpy < 2.4, and takes some
# twenty minutes.
test-neighbours: $(READY)
	$(PIP) -r checks/neighbours/requirements.txt
	@test -x .venv-geometric/bin/python || $(PYTHON) -m venv .venv-geometric
	.venv-geometric/bin/python -m pip install -qq --disable-pip-version-check -r checks/neighbours/geometric.txt -e '.[geometric,test]'
	@failed=0; for script in checks/neighbours/*.py; do \
		case $$script in *geometric.py) python=.venv-geometric/bin/python;; *) python=$(BIN)/python;; esac; \
		echo "$$script"; OMP_NUM_THREADS=1 $$python $$script || { echo "failed: $$script"; failed=1; }; \
	done; exit $$failed

# Fields in PyMC, Bambi and NumPyro (docs/bridges.md), in an environment of their own: PyTensor needs an older numba than
# constraints.txt has. It takes some ten minutes.
test-bridges:
	@test -x .venv-bridges/bin/python || $(PYTHON) -m venv .venv-bridges
	.venv-bridges/bin/python -m pip install -qq --disable-pip-version-check torch -r checks/neighbours/bridges.txt -e '.[terms,pymc,numpyro,test]'
	OMP_NUM_THREADS=1 .venv-bridges/bin/python -m pytest -W ignore --doctest-modules --doctest-glob='*.md' tests/bridges graphrf/bridges docs/bridges.md

# What is released: built, and used in clean environments; about half an hour. `make test-package ARGS="--only build,core"`
test-package: $(READY)
	$(BIN)/python checks/package.py $(ARGS)

# What is uploaded, checked with every Python that is here, and the notes, in out/release; some minutes for each Python.
# The upload itself is left: its command is printed. `make release ARGS="--pythons 3.11"`
release: $(READY)
	$(BIN)/python checks/release.py $(ARGS)

clean:
	rm -rf $(VENV) .venv-bridges .venv-geometric build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache out
