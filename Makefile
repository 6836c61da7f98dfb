# The two commands of the README. VENV names the virtual environment, PYTHON the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
# dev,memrm also tests what trains reward models, which needs torch
EXTRAS ?= dev
BIN = $(VENV)/bin

.PHONY: evolve test

evolve: $(VENV)/installed
	$(BIN)/mnemotune evolve configs/quickstart.yaml

test: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=.typing $(BIN)/mypy -p mnemotune
	$(BIN)/lint-imports
	$(BIN)/pytest

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $@ $(VENV)/installed
