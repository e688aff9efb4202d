# make demo: the crash without vlmguard and the run with it, side by side. make test: everything but
# the long campaign over model classes, which is make frameworks.
PYTHON ?= python3
ENVS = $(PYTHON) tests/kit/envs.py
DEV = .envs/dev/bin

.PHONY: demo test frameworks fast lint envs clean

demo:
	@$(ENVS) make swift
	@$(PYTHON) tests/kit/demo.py

test: envs lint fast
	$(DEV)/python -m pytest -m "frameworks and not campaign" -n 4 tests/frameworks tests/lab

frameworks: envs
	$(DEV)/python -m pytest -m campaign -n 4 tests/frameworks

envs:
	@$(ENVS) make dev swift swift32 trl llamafactory flagembedding colossalai

lint: envs
	$(DEV)/ruff check .
	$(DEV)/ruff format --check vlmguard plugins docs
	$(DEV)/mypy

fast: envs
	$(DEV)/python -m pytest -m "not frameworks"

clean:
	rm -rf .envs dist
