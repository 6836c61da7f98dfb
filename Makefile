# The three commands of the README. VENV names the virtual environment, PYTHON the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
# dev,memrm also tests what trains reward models, which needs torch
EXTRAS ?= dev
BIN = $(VENV)/bin

.PHONY: evolve test audit

evolve: $(VENV)/installed
	$(BIN)/mnemotune evolve configs/quickstart.yaml

test: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=.typing $(BIN)/mypy -p mnemotune
	$(BIN)/lint-imports
	$(BIN)/pytest

audit: $(VENV)/installed-dev
	VENV=$(VENV) .ci/audit

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $@ $(VENV)/installed
