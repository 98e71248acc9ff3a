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

.PHONY: demo test test-full lint docs test-browser test-package clean

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV): some minutes the first time, for torch is large"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gp,bo,distributed,mesh,plot,pyg,test,docs]'
	touch $@

demo: $(READY)
	$(BIN)/graphrf demo --out out $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, into out/site; warnings, and links that lead nowhere, are errors.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

test: lint docs
	$(BIN)/python -m pytest -n auto -m "not full" tests --doctest-modules graphrf --doctest-glob='*.md' README.md docs

test-full: lint docs
	$(BIN)/python -m pytest -n auto --hypothesis-profile=full tests --doctest-modules graphrf --doctest-glob='*.md' README.md docs

# The site and the demo's report in a real browser: Chromium, on the PATH or in CHROMIUM.
test-browser: docs demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	$(BIN)/python -m pytest tests/package/test_browser_check.py
	$(BIN)/python checks/browser.py --site out/site --report out/report.html --screenshots out/screenshots

# What is released: built, and used in clean environments; about half an hour. `make test-package ARGS="--only build,core"`
test-package: $(READY)
	$(BIN)/python checks/package.py $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache out
