# The commands of the README. VENV names the virtual environment, PYTHON the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
# dev,memrm also tests what trains reward models, which needs torch
EXTRAS ?= dev
BIN = $(VENV)/bin
# uv installs in seconds what takes pip minutes. It reads no settings of pip's but these; where it fails, pip does it.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV = $(if $(PIP_FIND_LINKS),UV_FIND_LINKS='$(PIP_FIND_LINKS)') $(if $(PIP_INDEX_URL),UV_DEFAULT_INDEX='$(PIP_INDEX_URL)') \
	$(BIN)/uv pip install --quiet --python $(BIN)/python
install = { $(PIP) uv && $(UV) --editable $(1); } || $(PIP) --editable $(1)

.PHONY: evolve test static suite audit docs

evolve: $(VENV)/installed
	$(BIN)/mnemotune evolve configs/quickstart.yaml

test: static suite

static: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	MYPYPATH=.typing $(BIN)/mypy -p mnemotune

suite: $(VENV)/installed-dev
	$(BIN)/pytest

audit: $(VENV)/installed-dev
	VENV=$(VENV) .ci/audit

docs: $(VENV)/installed-docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/site
	@echo "the site begins at build/site/index.html"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(call install,.)
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(call install,'.[$(EXTRAS)]')
	touch $@ $(VENV)/installed

# two installs at once would get in each other's way
ifneq ($(findstring docs,$(EXTRAS)),)
$(VENV)/installed-docs: $(VENV)/installed-dev
else
$(VENV)/installed-docs: pyproject.toml | $(BIN)/python
	$(call install,'.[docs]')
endif
	touch $@ $(VENV)/installed
