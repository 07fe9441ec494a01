# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup run test check fix bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[tensorboard,atari,panda,tune,ray,dev]'
	touch $(READY)

run: $(READY)
	$(BIN)/holdfast run --suite panda3 --learner affinity-l --budget quick --out runs/demo

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

fix: $(READY)
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

bench: $(READY)
	$(BIN)/python -m benchmarks.bench

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
