# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup run test soak browser docs check fix bench wheel clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[tensorboard,atari,panda,metaworld,datasets,onnx,tune,ray,report,tutorial,docs,dev]'
	touch $(READY)

run: $(READY)
	$(BIN)/holdfast run --suite panda3 --learner affinity-l --budget quick --out runs/demo

test: $(READY) browser
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Random changes of an agent with kills in between, then ten thousand damaged and forged inputs.
soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m soak.soak
	OMP_NUM_THREADS=1 $(BIN)/python -m soak.fuzz

# The page is tested in a real browser. It is installed where that takes no password; elsewhere, its tests say so.
browser:
	@command -v chromium-headless-shell || command -v chromium || command -v google-chrome || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get && apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium-headless-shell fonts-dejavu-core; } > /dev/null || \
	echo "no Chromium here, and it cannot be installed: the tests of the page in a browser will be skipped"

# The documentation as a site, which opens from site/index.html.
docs: $(READY)
	$(BIN)/mkdocs build --strict

check: $(READY)
	$(BIN)/ruff format --check src tests bench soak docs/hooks.py
	$(BIN)/ruff check src tests bench soak docs/hooks.py
	$(BIN)/mypy

fix: $(READY)
	$(BIN)/ruff check --fix src tests bench soak docs/hooks.py
	$(BIN)/ruff format src tests bench soak docs/hooks.py

bench: $(READY)
	$(BIN)/python -m bench.bench
	$(BIN)/python -m bench.beside

# A wheel, tried in an empty environment outside this folder: a toy run, a Panda run, a report.
wheel: $(READY)
	$(BIN)/python -m tests.wheel

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache
