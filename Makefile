# make demo: the crash without vlmguard and the run with it, side by side. make test: all but the long
# campaigns; of many real runs it draws some, and prints the seed. make frameworks: every real run.
PYTHON ?= python3
ENVS = $(PYTHON) tests/kit/envs.py
DEV = .envs/dev/bin
DOCS = .envs/docs/bin
REAL = tests/frameworks tests/lab tests/release

# The real runs of `make test`; `make frameworks` makes all others as well.
REAL = tests/frameworks
TOLD = $(REAL)/flagembedding/test_flagembedding_settings.py \
  $(REAL)/flagembedding/test_flagembedding_faults.py $(REAL)/swift/test_swift_dry_step.py \
  $(REAL)/swift/test_defaults.py $(REAL)/observe $(REAL)/colossalai/test_colossalai_cases.py \
  $(REAL)/colossalai/test_colossalai_faults.py $(REAL)/colossalai/test_colossalai_stops.py \
  $(REAL)/trainers/test_lives.py $(REAL)/matrix

.PHONY: demo test frameworks matrix fast lint dev envs docs site shots dist clean

demo:
	@$(ENVS) make swift
	@$(PYTHON) tests/kit/demo.py

test: envs lint fast site
	$(DEV)/python -m pytest -m "frameworks and not campaign" --draw -n 4 $(REAL)

frameworks: envs
	$(DEV)/python -m pytest -m "frameworks or campaign" -n 4 $(REAL)

# Every cell of docs/matrix.md that has no record yet, guard off and on; stop and go on at will.
matrix: dev
	@$(ENVS) make trl colossalai
	$(PYTHON) tests/matrix/campaign.py
	$(DEV)/python docs/pages.py

# What most changes need: one small environment, under a minute.
fast: dev
	$(DEV)/python -m pytest -m "not frameworks"

lint: dev
	$(DEV)/ruff check .
	$(DEV)/ruff format --check vlmguard plugins docs examples
	$(DEV)/mypy

dev:
	@$(ENVS) make dev

envs:
	@$(ENVS) make dev docs swift swift32 trl llamafactory flagembedding colossalai

docs:
	@$(ENVS) make docs

# The site, with broken links, anchors and outside requests as errors, and six pages in a browser.
site: dev docs
	$(DEV)/python docs/pages.py
	$(DOCS)/python docs/make_site.py build
	$(DOCS)/python docs/make_site.py look --only-some

# Every page, as pictures under .site/shots.
shots: site
	$(DOCS)/python docs/make_site.py look

# What goes on an index: dist/*.tar.gz and dist/*.whl, checked.
dist: dev docs
	rm -rf dist
	$(DEV)/python -m build --no-isolation --outdir dist .
	$(DOCS)/python -m twine check --strict dist/*

clean:
	rm -rf .envs dist site
