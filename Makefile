# The same targets for people and for CI. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LIGHT  := $(VENV)/.sandbox

.DEFAULT_GOAL := help
.PHONY: help page wheel image push-image chart push-chart sandbox test coverage web-test screenshots controlplane kube-test kube-chaos \
  fuzz lint check commits bench bench-live experiments docs protocol lock audit release-check github-release clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Two stages in one environment: what the sandbox needs, and all that development needs.
$(LIGHT): locks/sandbox.lock locks/build.lock pyproject.toml
	@$(PYTHON) tools/install.py --no-compile $(VENV) locks/build.lock locks/sandbox.lock
	@touch $@

$(READY): locks/development.lock pyproject.toml
	@$(PYTHON) tools/install.py $(VENV) locks/development.lock
	@touch $@ $(LIGHT)

page: $(READY)  ## build the web page, with the machine's Node or with Node from PyPI
	@$(BIN)/python tools/build_page.py

wheel: $(READY)  ## build the package with the page in it, into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# What a release publishes. REGISTRY is a registry with a path, in lower case ("registry.example.com/team").
VERSION  := $(shell sed -nE 's/^__version__ = "(.*)"/\1/p' src/fairway/__init__.py)
REGISTRY ?= localhost
IMAGE     = $(REGISTRY)/fairway:$(VERSION)
image:  ## build the container image (needs Docker): REGISTRY=registry.example.com/team
	docker build --build-arg FAIRWAY_COMMIT=$$(git rev-parse HEAD) --tag $(IMAGE) .

push-image: image  ## build the image and push it to REGISTRY
	docker push $(IMAGE)

# There are no chart sources: `fairway install -o helm` writes both charts.
chart: $(READY)  ## write the Helm charts of the scheduler and the placer to dist/charts
	rm -rf dist/charts
	$(BIN)/python -m fairway.cli.main install --image $(IMAGE) -o helm --out dist/charts/fairway
	$(BIN)/python -m fairway.cli.main install fleet --image $(IMAGE) -o helm --out dist/charts/fairway-fleet

push-chart: chart  ## package the charts and push them to REGISTRY/charts (needs Helm)
	helm package --destination dist/charts dist/charts/fairway dist/charts/fairway-fleet
	for package in dist/charts/*.tgz; do helm push "$$package" oci://$(REGISTRY)/charts || exit 1; done

# The page is built beside the sandbox, not before it; without a terminal nobody opens it. exec: Ctrl-C ends it quietly.
sandbox: $(LIGHT)  ## run an embedded cluster with the real scheduler; without a terminal, the demo and its report
	@if [ -t 1 ]; then $(BIN)/python tools/build_page.py --background; exec $(BIN)/python -m fairway.cli.main sandbox; \
	else exec $(BIN)/python -m fairway.cli.main sandbox --once; fi

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest -q -n auto --dist loadfile

coverage: $(READY)  ## run the tests with coverage, and fail where a package is below its floor
	@mkdir -p build
	$(BIN)/python -m pytest -q -n auto --dist loadfile --cov=fairway --cov-report=json:build/coverage.json $(ONLY)
	@$(BIN)/python -m tools.coverage_floors build/coverage.json

controlplane: $(READY)  ## build the programs for the tests on a real API server, once (needs Go)
	@PYTHONPATH=tests $(BIN)/python -m kube.controlplane.build

# AGAIN=--last-failed: only what failed, with the audit logs of the run before.
AUDIT := $(abspath build/audit)
kube-test: $(READY)  ## run the tests on a real API server, which is built once (needs Go)
	@if PYTHONPATH=tests $(BIN)/python -m kube.controlplane.build; then \
	  $(if $(AGAIN),,rm -rf $(AUDIT) &&) mkdir -p $(AUDIT) && \
	  FAIRWAY_KUBE=1 FAIRWAY_AUDIT=$(AUDIT) $(BIN)/python -m pytest -q -n 3 --dist loadfile $(AGAIN) tests/kube tests/agent && \
	  PYTHONPATH=tests $(BIN)/python -m kube.audit $(AUDIT); \
	else [ $$? = 3 ]; fi

kube-chaos: $(READY)  ## random stories with 200 kill -9 and 2,000 injected faults on a real API server (needs Go)
	@if PYTHONPATH=tests $(BIN)/python -m kube.controlplane.build; then \
	  FAIRWAY_KUBE=1 FAIRWAY_KILLS=200 $(BIN)/python -m pytest -q -s -n 2 -k long_run tests/kube/test_kube_chaos.py; \
	else [ $$? = 3 ]; fi

web-test: $(READY)  ## build and check the page, and run its tests in a browser (needs Chromium)
	@$(BIN)/python tools/build_page.py --check
	FAIRWAY_WEB=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile $(AGAIN) tests/browser tests/web

screenshots: $(READY)  ## take the pictures of the page in docs/images (needs the built page and Chromium)
	PYTHONPATH=tests $(BIN)/python -m tools.screenshots

# SEED repeats a run, EXAMPLES takes that many of every property, MINUTES as many as there is time for, LONG=1 the long
# numbers, ONLY some paths or tests, ROUND one round of a long run.
fuzz: $(READY)  ## run every property test on new random examples: SEED=, EXAMPLES=20000, MINUTES=60, LONG=1, ONLY=tests/property
	@seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; echo "random examples from seed $$seed (make fuzz SEED=$$seed repeats them)"; \
	FAIRWAY_FUZZ=1 FAIRWAY_SEED="$$seed" FAIRWAY_EXAMPLES=$(EXAMPLES) FAIRWAY_LONG=$(LONG) FAIRWAY_MINUTES=$(MINUTES) FAIRWAY_ROUND=$(ROUND) \
	  $(BIN)/python -m pytest -q -n $(or $(WORKERS),auto) -m hypothesis --hypothesis-seed="$$seed" $(or $(ONLY),tests)

lint: $(READY)  ## format and fix what can be fixed by a machine
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(READY)  ## style, types and layers, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.walk

# Only Git and the standard library, so that CI can check a pull request before it installs anything.
commits:  ## check the subjects of the commits that are not on main: BASE=origin/main
	@$(PYTHON) tools/commit_subject.py --since $(or $(BASE),origin/main)

bench: $(READY)  ## run the benchmarks and print their ratios
	$(BIN)/python -m benchmarks

bench-live: $(READY)  ## measure fairway run on a real API server, beside a bare loop (needs Go)
	PYTHONPATH=tests $(BIN)/python -m benchmarks.on_server

experiments: $(READY)  ## measure published results again (data from FAIRWAY_DATA)
	$(BIN)/python -m experiments

docs: $(READY)  ## write the generated reference pages in docs/, and what documented commands print
	$(BIN)/python -m fairway.cli.main policy reference > docs/policy-reference.md
	$(BIN)/python -m tools.fields
	$(BIN)/python -m tools.openapi
	$(BIN)/python -m tools.pages

protocol: $(READY)  ## write the messages of the node's protocols from their .proto files
	$(BIN)/python -m tools.protocol

# The locks of the image, the sandbox and the build take the versions of the development lock: one version of everything.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
lock: $(READY)  ## resolve the dependencies again into locks/
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) pyproject.toml --extra dev --upgrade -o locks/development.lock
	$(COMPILE) pyproject.toml --extra production -c locks/development.lock -o locks/production.lock
	$(COMPILE) pyproject.toml --extra sandbox -c locks/development.lock -o locks/sandbox.lock
	$(COMPILE) --group build -c locks/development.lock -o locks/build.lock

# DATABASE: an export of OSV (PyPI/all.zip) for a machine without PyPI. STRICT=1: what cannot be checked fails.
audit: $(READY)  ## check licences and known vulnerabilities of what is shipped, and write its bill of materials to dist/
	@$(BIN)/python -m tools.audit $(if $(DATABASE),--database $(DATABASE)) $(if $(STRICT),--strict)

# TAG: the tag of the release, v0.1.0. It is read from the environment by the shell, so that no character of it is code.
release-check:  ## compare TAG with the version and CHANGELOG.md, and write the release notes to dist/
	@$(PYTHON) tools/release.py "$$TAG" --notes dist/release-notes.md

github-release: release-check  ## create the release of TAG on GitHub with the files in dist/ (needs gh)
	gh release create "$$TAG" --verify-tag --title "$$TAG" --notes-file dist/release-notes.md dist/*.whl dist/*.json

clean:  ## remove the environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
