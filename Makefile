# Each target makes the environment it needs (.venv) and is quick the second time.
PYTHON ?= python3
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo shell pictures docs package test contracts slow chaos lint style formatted types words format clean

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
COPY := build/lint
DEMO := abandoned-power-plant ntu gridworld --out results/demo
say = @echo "==> $(1)"

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: .venv/ready ## reproduce the paper on three small domains, with a report to open in a browser
	$(call say,reproducing the paper on three small domains: about a minute)
	@$(BIN)/jatpo reproduce $(DEMO)

shell: .venv/ready ## open a shell in which jatpo and python are those of .venv
	@bash --rcfile <(cat ~/.bashrc 2>/dev/null || true; echo 'source .venv/bin/activate') -i

docs: .venv/ready-docs ## build the site in build/docs/html, tutorials executed
	$(call say,documentation)
	@mkdir -p build/docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/docs/doctrees docs build/docs/html
	@echo "open build/docs/html/index.html"

package: .venv/ready ## build wheel and sdist into dist/, install each in a clean environment, and try it
	$(call say,wheel and sdist)
	@bash .ci/package $(PYTHON)

pictures: .venv/ready ## draw the pictures of the README from the demo's results
	$(call say,drawing docs/images)
	@$(BIN)/jatpo reproduce $(DEMO) --pictures docs/images

test: .venv/ready ## run the tests, but for contracts and slow ones (ARGS="-k belief" selects)
	$(call say,tests)
	@$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

contracts: .venv/ready ## run all contract suites, slow ones too, with optimised programs
	$(call say,contract suites with optimised programs)
	@XLA_FLAGS= $(BIN)/python -m pytest --numprocesses auto --dist loadfile -m "" tests/contracts $(ARGS)

slow: .venv/ready ## run the slow tests, and those on equal bits, with optimised programs
	$(call say,slow tests)
	@XLA_FLAGS= $(BIN)/python -m pytest -m "slow or bits" $(ARGS)

chaos: .venv/ready ## attack the guarantees of docs/reliability.md for twenty minutes (ARGS=--short: two, --long: hours)
	$(call say,chaos)
	@$(BIN)/python -m tests.chaos.campaign $(ARGS)

lint: .venv/ready-lint ## check style (ruff), words and types (pyright, on an installed copy)
	@$(MAKE) --no-print-directory --keep-going style formatted words types

words: .venv/ready-lint
	$(call say,plain English)
	@$(BIN)/python .ci/words.py

style: .venv/ready-lint
	$(call say,ruff check)
	@$(BIN)/ruff check --output-format concise .

formatted: .venv/ready-lint
	$(call say,ruff format)
	@$(BIN)/ruff format --check --output-format concise .

types: .venv/ready-lint
	$(call say,pyright)
	@rm -rf build/lib build/bdist.* $(COPY)
	@$(PIP) install --no-deps --no-build-isolation --target $(COPY) .
	@$(BIN)/pyright --warnings | sed -E "s#$(CURDIR)/$(COPY)/##; s#jatpo/(domains|solve|evaluate)/#\1/#"

format: .venv/ready-lint ## fix what ruff can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove the environment, caches and builds
	rm -rf .venv .cache build dist *.egg-info .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("jatpo needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] \
	  + "; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(call say,installing jatpo and what it needs into .venv (some minutes the first time))
	@$(PYTHON) -m venv .venv
	@$(PIP) install -c constraints.txt -e '.[test]'
	@touch $@

.venv/ready-docs: .venv/ready
	$(call say,installing Sphinx into .venv)
	@$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@

.venv/ready-lint: .venv/ready
	$(call say,installing ruff and pyright into .venv)
	@$(PIP) install -c constraints.txt -e '.[lint]'
	@touch $@
