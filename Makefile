# Two commands for a newcomer: `make study` (the quickstart) and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --no-compile --quiet -c constraints.txt

.PHONY: study test lint install install-dev clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp file remembers what is installed, so that a second `make study` starts at once.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing scalerl into $(VENV) (a minute or two) ..."
	$(PIP) -e '.[train,report]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing scalerl and what its tests need into $(VENV) (a few minutes) ..."
	$(PIP) -e '.[train,report,task,readers,dev]'
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

study: install
	$(BIN)/scalerl study quickstart

test: install-dev
	$(BIN)/python -m pytest tests

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
