# Two commands need Python >= 3.11, make and, the first time, a network:  make demo   make test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test check format soak league bench recipes clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[demo,plot,hf,signals,track,dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/regard demo

test: setup
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

soak: setup
	$(BIN)/python -m pytest -m slow

# Plants faults in models and counts how many `regard verify` finds and names; minutes on one core.
league: setup
	$(BIN)/python tests/league/run.py

# Those that need no data; each says at its top what it measures.
bench: setup
	for name in train decode start looking corpus; do $(BIN)/python benchmarks/$$name.py || exit 1; done

# DATA is the folder that holds multi30k-en-de/ and cmudict-g2p/
recipes: setup
	test -n "$(DATA)" || { echo 'say where the data lies: make recipes DATA=folder' >&2; exit 2; }
	$(BIN)/regard train recipes/multi30k-en-de.toml --data $(DATA)/multi30k-en-de --out runs/multi30k-en-de
	$(BIN)/regard train recipes/cmudict-g2p.toml --data $(DATA)/cmudict-g2p --out runs/cmudict-g2p

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
