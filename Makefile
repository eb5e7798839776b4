# `make test` needs Python 3.11 and make, nothing else: it makes its own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install test test-all lint types contracts unit demo weights gallery proof map docs bench stubs clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

install: $(STAMP)  ## make .venv and install foveal into it, with everything that the tests need

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "foveal needs Python 3.11 or later; call make PYTHON=python3.11 test")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[peers,prune,hub,imagenet]' --group test
	@touch $(STAMP)

test: lint types contracts unit  ## lint, types, import contracts and the tests that a person waits for

test-all: lint types contracts  ## the same with every test: exhaustive grids, pages of the docs, hostile calls, kills
	$(BIN)/python -m pytest -n auto

lint: $(STAMP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

contracts: $(STAMP)  ## one-way imports
	$(BIN)/lint-imports --no-cache

unit: $(STAMP)  ## pytest on all cores, without what is slow
	$(BIN)/python -m pytest -n auto -m 'not slow'

demo: $(STAMP)  ## render pipes, train a small model, evaluate it, and show where it looked
	rm -rf build/demo
	$(BIN)/foveal render pipes --seed 7 --count 1500 --size 112 --out build/demo/pipes
	$(BIN)/foveal train classify --recipe demo --data build/demo/pipes --out build/demo/run
	$(BIN)/foveal evaluate build/demo/run
	$(BIN)/foveal explain build/demo/run build/demo/pipes/images/000020.jpg --out build/demo/looked.png
	@echo "the report is build/demo/run/evaluation-test/report.html, and where it looked is build/demo/looked.png"

weights: $(STAMP)  ## train the weights in the package anew; minutes on a GPU, hours without
	$(BIN)/foveal render pipes --count 24000 --out build/weights/pipes
	$(BIN)/foveal train classify --recipe pipes --data build/weights/pipes --out build/weights/run
	$(BIN)/python scripts/package_weights.py build/weights/run icam-pipes
	$(BIN)/foveal train classify --recipe pipes --model icam-fast --epochs 60 --data build/weights/pipes --out build/weights/fast
	$(BIN)/python scripts/package_weights.py build/weights/fast icam-fast-pipes
	$(BIN)/foveal train segment --data pipes:2000:1 --augment pipe --epochs 16 --out build/weights/seg-first
	$(BIN)/foveal train segment --data pipes:6000:1 --epochs 8 --lr 0.002 --skeleton 0 --init-from build/weights/seg-first --out build/weights/seg
	$(BIN)/foveal evaluate build/weights/seg --data pipes:3000:99 --out build/weights/seg-tested
	$(BIN)/python scripts/package_weights.py build/weights/seg icam-seg-pipes build/weights/seg-tested

gallery: $(STAMP)  ## draw every mask and mechanism
	$(BIN)/foveal show --gallery build/gallery

proof: $(STAMP)  ## measure every mechanism against its oracle and write docs/proof.md
	$(BIN)/python tests/proof.py docs/proof.md

map: $(STAMP)  ## draw the rooms and their imports into docs/rooms.svg
	$(BIN)/python scripts/map.py

docs: $(STAMP)  ## build the documentation into build/site
	$(BIN)/python scripts/site.py
	@echo "the site is build/site/index.html; for its search: $(BIN)/python -m http.server --directory build/site"

stubs: $(STAMP)  ## write the stubs of the folders whose names are found by their files
	$(BIN)/python scripts/write_stubs.py

bench: $(STAMP)  ## time attention against torch, and write results/
	$(BIN)/foveal bench attention
	$(BIN)/foveal bench crossover

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
