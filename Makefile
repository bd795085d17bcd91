# Everything a person types here; `make` alone lists it.
#
# Each interpreter has its own environment: `make test` uses python3 and .venv,
# `make test PYTHON=python3.13` uses .venv-3.13. An environment is brought up to date when
# pyproject.toml or constraints.txt change, and made anew when its interpreter does.

PYTHON ?= python3
ARGS ?=

version := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
venv := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(version))
python := $(venv)/bin/python
installed := $(venv)/.installed-$(version)
documented := $(venv)/.documented-$(version)
pip := $(python) -m pip --disable-pip-version-check --quiet
# Many tests wait for servers and processes: three files at once keep two cores busy.
pytest := $(python) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 60 --durations-min 3
modules := extension/node_modules/.package-lock.json
root_flag := $(if $(filter 0,$(shell id -u)),--allow-root)

# Bytecode is written when a module is first imported: compiling all of it takes as long as the rest
# of the installation, and most of it is never imported. (An old pip resolves far slower, too.)
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast lint types tests extension extension-check notebooks lab format docs \
	reference constraints clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  Add PYTHON=python3.13 (or a path) for another interpreter, 3.11 to 3.13."

demo: $(installed) ## train a small GPT from notebooks/quickstart.ipynb and show how it went
	@$(python) notebooks/run.py notebooks/quickstart.ipynb

test: lint types tests ## lint, types and all tests

test-fast: $(installed) ## the quick tests only, for a second interpreter
	@echo "== quick tests, Python $(version)"
	@$(python) -c 'import theseus; print("theseus", theseus.__version__)'
	@$(pytest) -m "not slow and not browser" $(ARGS)

lint: $(installed)
	@echo "== lint"
	@$(python) -m ruff check .
	@$(python) -m ruff format --check .

types: $(installed)
	@echo "== types"
	@$(python) -m mypy

tests: $(installed)
	@echo "== tests, Python $(version)"
	@$(pytest) $(ARGS)

extension: $(installed) $(modules) ## build the JupyterLab extension into theseus/lab/labextension (needs node)
	@cd extension && PATH="$(abspath $(venv)/bin):$$PATH" npm run --silent build

# What is built is committed, so that a clone works without node: it must be what the sources give.
extension-check: $(installed) $(modules) ## lint, types and tests of the extension, and whether its build is current
	@echo "== extension"
	@rm -rf build/labextension && mkdir -p build && cp -R theseus/lab/labextension build/labextension
	@cd extension && npm run --silent lint && npm run --silent types:static
	@$(MAKE) --no-print-directory extension PYTHON=$(PYTHON) >build/extension.log 2>&1 \
		|| { cat build/extension.log; exit 1; }
	@cd extension && npm run --silent test:built
	@diff -r build/labextension theseus/lab/labextension || { echo "theseus/lab/labextension was not" \
		"what extension/ gives; it is now: commit it"; exit 1; }

notebooks: $(installed) ## execute every notebook
	@$(python) notebooks/run.py $(sort $(wildcard notebooks/*.ipynb))

lab: $(installed) ## open JupyterLab on the notebooks
	@$(python) -m jupyterlab $(root_flag) notebooks

format: $(installed) ## put the code into its form and mend what can be mended
	@$(python) -m ruff check --fix .
	@$(python) -m ruff format .

docs: $(documented) reference ## build the documentation into build/docs
	@$(python) -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

reference: $(installed) ## write docs/reference from the code
	@$(python) docs/generate.py

constraints: $(installed) ## take the newest versions of everything into constraints.txt
	@$(pip) install uv
	@UV_SYSTEM_CERTS=1 $(venv)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
		--extra all --extra cpu --extra dev --extra docs --no-annotate \
		--custom-compile-command "make constraints" --output-file constraints.txt pyproject.toml
	@echo "constraints.txt: $$(grep -c == constraints.txt) pins"

clean: ## remove what was built (the environments stay: rm -r .venv*)
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find theseus tests docs notebooks -name __pycache__ -type d -prune -exec rm -rf {} +

$(installed): pyproject.toml constraints.txt
	@[ -n "$(version)" ] || { echo "'$(PYTHON)' does not run here. Name a Python 3.11, 3.12 or 3.13:" \
		"make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }
	@case "$(version)" in 3.11|3.12|3.13) ;; *) echo "Theseus needs Python 3.11, 3.12 or 3.13, and" \
		"'$(PYTHON)' is $(version): make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1;; esac
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "$(PYTHON) cannot make environments;" \
		"on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@[ "$$($(python) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$(version)" ] \
		|| $(PYTHON) -m venv --clear $(venv)
	@rm -f $(venv)/.installed-* $(venv)/.documented-*
	@echo "== installing Theseus and about 170 packages into $(venv) (Python $(version));" \
		"the first time takes one or two minutes"
	@$(pip) install 'pip>=26'
	@$(pip) install --no-compile --constraint constraints.txt --editable '.[all,cpu,dev]'
	@touch $@

$(modules): extension/package-lock.json
	@command -v npm >/dev/null || { echo "the extension is built with node (20 or newer) and npm, and" \
		"npm is not installed here; what is committed in theseus/lab/labextension works without"; exit 1; }
	@cd extension && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(documented): $(installed)
	@$(pip) install --no-compile --constraint constraints.txt --editable '.[all,cpu,dev,docs]'
	@touch $@
