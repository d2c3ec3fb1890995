# Every target does its own set-up and is safe to repeat. `make demo` is the way in.
SHELL := bash
BIN := .venv/bin
.DEFAULT_GOAL := demo
.PHONY: demo test bench soak durability fuzz setup engine image clean

demo: image ## run the agent on a small task, without a key
	@$(BIN)/actloop demo

# Where no engine answers, the tests that need one are skipped and counted at the end; in CI that is an error.
test: setup ## format, lint, types, direction of imports, tests
	@if scripts/engine; then $(ENSURE_IMAGE); else [[ "$$CI" != true ]]; fi
	@$(BIN)/ruff format --quiet --check . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports >.venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }
	@echo "format, lint, types, imports: ok"
	@$(BIN)/pytest -q

bench: image ## measure against the floor and the peers
	@$(BIN)/python -m bench

soak: image ## 200 sessions, 8 at a time; nothing may fail or be left behind
	@$(BIN)/python -m bench.soak

durability: image ## kill runs and boxes at forty random moments each, on both kinds of store, and go on
	@$(BIN)/python -m tests.graph.kills 40
	@$(BIN)/python -m tests.graph.kills 40 postgres
	@$(BIN)/python -m tests.graph.kills 40 --boxes

fuzz: setup ## read hostile replies and check hostile code for some minutes; nothing may raise or run that must not
	@ACTLOOP_FUZZ=5000 $(BIN)/pytest -q --timeout=0 tests/nodes/test_fuzz_reading.py

setup: .venv/installed ## make .venv
	@:
.venv/installed: pyproject.toml constraints.txt scripts/setup
	@scripts/setup

engine: ## make sure that a Docker engine answers
	@scripts/engine

ENSURE_IMAGE = $(BIN)/python -c 'import sys; from actloop.sandbox.image import main; sys.exit(main())'
image: setup engine ## build the sandbox's image unless it is there
	@$(ENSURE_IMAGE)

clean: ## remove what the other targets made in this folder
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
