# Two commands do everything on a fresh machine with Python >= 3.11: `make demo` and `make test`.
# Each target makes its own virtual environment first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint bench bench-peers eval torture mutants coverage clean

demo: $(VENV)/installed          ## the main job, in front of your eyes, in under 15 seconds
	$(BIN)/threadline demo

test: $(VENV)/installed-dev lint ## everything that must hold, in minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

lint: $(VENV)/installed-dev      ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-dev     ## speed, as ratios beside bare engines in one run, into docs/; BENCH=quick only prints
	BENCH=$(BENCH) $(BIN)/python -m bench $(if $(filter quick,$(BENCH)),,--docs docs)

bench-peers: $(VENV)/installed   ## the same work on what others use, each in an environment of its own, into docs/peers.md
	$(BIN)/python -m bench.peers --docs docs

eval: $(VENV)/installed-dev      ## how well questions find their answers; ARGS="--locomo FILE" for LoCoMo
	$(BIN)/python -m bench.eval $(ARGS)

torture: $(VENV)/installed-dev   ## the long proofs, under 40 minutes on 2 cores; SCALE=ci is a short run, SEED= another one
	$(BIN)/python -m torture --scale $(or $(SCALE),1) --seed $(or $(SEED),1) $(if $(JSON),--json $(JSON))

mutants: $(VENV)/installed-dev   ## plant a bug for each promise: every one must be caught
	$(BIN)/python -m torture --mutants $(NAMES)

COVERING := tests/core tests/context tests/test_messages.py tests/contract/test_sqlite.py

coverage: $(VENV)/installed-dev  ## which branches of the thinking no test reaches: there must be none
	THREADLINE_SCALE=0.05 $(BIN)/python -m coverage run -m pytest -q -p no:xdist $(COVERING) \
		-k "not TestFile"   # the same claims as of a store in memory
	$(BIN)/python -m coverage report

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
