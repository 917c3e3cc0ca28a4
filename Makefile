# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
.DEFAULT_GOAL := help

.PHONY: help demo test deployment bench-functions check lint types bench bench-connectors soak build clean accuracy lab schemas lock

help: ## show what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"rootrank needs Python 3.11 or newer, found {v.major}.{v.minor}: call make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: install the venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## one real failure through the whole pipeline on the embedded AWS
	@$(BIN)/rootrank run events/demo.json --format text

test: $(READY) ## all tests
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests

deployment: $(READY) ## sam build, sam deploy to an emulator on loopback, functions as built (docs/deploy.md)
	@ROOTRANK_DEPLOY=1 ROOTRANK_REQUIRE_SYSTEM=1 $(BIN)/python -m pytest tests/infra

bench-functions: $(READY) ## cold start and memory of each function as built (docs/functions.md)
	@ROOTRANK_DEPLOY=1 ROOTRANK_BENCH=1 ROOTRANK_REQUIRE_SYSTEM=1 $(BIN)/python -m pytest tests/infra/test_deployment.py
	@cp build/functions.md docs/functions.md && cat docs/functions.md

check: lint types test ## lint, types and tests

lint: $(READY) ## ruff, format, templates
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/cfn-lint template.yaml infra/spoke/template.yaml

types: $(READY) ## mypy, strict
	@$(BIN)/mypy

accuracy: $(READY) ## scoreboard over corpus, lab and blind bundles; BUNDLES="DIR ..." for other folders
	@$(BIN)/python scripts/accuracy.py $(BUNDLES)

lab: $(READY) ## real failures with known causes on this machine (needs root; docs/lab.md)
	@$(BIN)/python scripts/lab.py run --out .rootrank/lab

bench: $(READY) ## speed and memory against a peer, in one run
	@$(BIN)/python scripts/bench.py

bench-connectors: $(READY) ## connectors against reading a file, redaction, 10 GiB (docs/benchmarks-connectors.md)
	@$(BIN)/python scripts/bench_connectors.py

soak: $(READY) ## seeded duplicate, reordering and fault runs on the embedded AWS
	@$(BIN)/python scripts/soak.py
	@$(BIN)/python scripts/soak.py --events 2000 --copies 1 --seed 2
	@$(BIN)/python scripts/chaos.py --out docs/chaos-runs.csv
	@$(BIN)/python scripts/service_soak.py

build: $(READY) ## the deployable artifact (needs the SAM command line)
	@command -v sam >/dev/null || { echo "sam is not installed: pip install aws-sam-cli (in a venv of its own)" >&2; exit 1; }
	@sam build

schemas: $(READY) ## write events/schemas/ and docs/openapi.json from the models
	@$(BIN)/python -m engine.model.schemas events/schemas
	@$(BIN)/python -m functions.service.openapi docs/openapi.json

lock: $(READY) ## refresh requirements.lock
	@$(BIN)/python -m piptools compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --extra embedded --extra dev -o requirements.lock pyproject.toml

clean: ## remove what the other targets made
	@rm -rf $(VENV) .rootrank build .aws-sam .mypy_cache .ruff_cache .pytest_cache .hypothesis

include infra/build.mk
