# Two commands do everything: `make run` and `make test`. Both install into .venv first, once.

PYTHON ?= python3
BIN := .venv/bin
# Half as many again as processors: tests of processes and links wait half of their time.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) * 3 // 2)')
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test check chaos soak dashboards format clean

run: .venv/.installed
	$(BIN)/peerloom run

test: .venv/.installed-for-tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile -m ''

# The quick tests alone, for while you work: under three minutes on two cores.
check: .venv/.installed-for-tests
	$(BIN)/ruff check
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile

# Faults on purpose: kills, partitions, floods, full disks. Up to half an hour; some need root. `make chaos WITH="--quick --only 1 3"`
chaos: .venv/.installed-for-tests
	OMP_NUM_THREADS=1 $(BIN)/python -m chaos $(WITH)

# Faults without end, drawn from a seed, and a verdict on every run. `make soak WITH="--minutes 60 --seed 7"`
soak: .venv/.installed-for-tests
	OMP_NUM_THREADS=1 $(BIN)/python -m chaos soak $(WITH)

# The Grafana board and the alarms below deploy/watching, from the metrics that peers have.
dashboards: .venv/.installed-for-tests
	$(BIN)/python scripts/make_dashboards.py

format: .venv/.installed-for-tests
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Peerloom needs Python 3.11 or newer: make PYTHON=python3.12 run")'
	$(PYTHON) -m venv .venv

.venv/.installed: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing into .venv (once; torch is large) ..."
	$(PIP) --editable .
	touch $@

.venv/.installed-for-tests: .venv/.installed $(wildcard tests/hosts/flower-*.txt tests/language/peft-*.txt)
	@echo "Installing what the tests need ..."
	$(PIP) --editable '.[test]'
	$(BIN)/python -m tests.environments
	touch $@
