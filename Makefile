# `make demo` and `make test` set everything up by themselves: a virtual environment in .venv with the
# versions of constraints.txt, rebuilt when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Data beside a checkout is found by itself; elsewhere set GRAPHRF_DATA_DIR or let graphrf download it.
ifneq ($(wildcard ../shared/data),)
GRAPHRF_DATA_DIR ?= $(abspath ../shared/data)
export GRAPHRF_DATA_DIR
endif

.PHONY: demo test test-full lint clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gp,bo,distributed,mesh,plot,pyg,test]'
	touch $@

demo: $(READY)
	$(BIN)/graphrf demo --out out $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n auto -m "not full" tests --doctest-modules graphrf --doctest-glob='*.md' README.md docs

test-full: lint
	$(BIN)/python -m pytest -n auto --hypothesis-profile=full tests --doctest-modules graphrf --doctest-glob='*.md' README.md docs

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache out
