# make demo: the crash without vlmguard and the run with it, side by side. make test: all but the long
# campaigns; of many real runs it draws some, and prints the seed. make frameworks: every real run.
PYTHON ?= python3
ENVS = $(PYTHON) tests/kit/envs.py
# VLMGUARD_ENVS: an absolute folder with the environments, for several checkouts.
ENVS_HOME = $(or $(VLMGUARD_ENVS),.envs)
DEV = $(ENVS_HOME)/dev/bin
DOCS = $(ENVS_HOME)/docs/bin
# Tests start hundreds of processes: where bytecode is not kept, each compiles its modules anew.
export PYTHONDONTWRITEBYTECODE =
REAL = tests/frameworks tests/ordinary tests/ledger tests/lab tests/release tests/gpu tests/bench

DRAWN = -m "frameworks and not campaign" --draw
# A test that fails beside others runs once more, alone: a machine that is busy for a moment fails what
# has a limit of time. The second result stands; what failed at first is named above it.
AGAIN = code=$$?; [ $$code -eq 1 ] || exit $$code; echo "FAILED BESIDE OTHERS, once more alone:"; \
	$(DEV)/python -m pytest -vv --last-failed --last-failed-no-failures none --maxfail 3

.PHONY: demo test frameworks matrix rehearse-all rehearse-jobs faults mutate fast lint dev envs docs site shots dist bench gpu
.PHONY: gpu-wheels clean extras suites ordinary ledger zoo zoo-runs repositories

demo:
	@$(ENVS) make swift
	@$(PYTHON) tests/kit/demo.py

test: envs lint fast site
	$(DEV)/python -m pytest $(DRAWN) -n 4 --dist worksteal --durations 20 $(REAL) || { $(AGAIN) $(DRAWN) $(REAL); }

frameworks: envs
	$(DEV)/python -m pytest -m "frameworks or campaign" -n 4 --dist worksteal $(REAL)

# Hours, and resumed where they were stopped: real runs with a function of ours upset (SEED=N draws
# the same ones again), runs with something wrong around us, changes to the sources that the fast
# tests should notice. What came of them is committed, and shown by docs/proof.md.
faults: envs
	$(DEV)/python -m tools.faults.campaign $(if $(SEED),--seed $(SEED))
	$(DEV)/python -m tools.faults.campaign --elsewhere
	$(DEV)/python -m tools.pages.proof

mutate: dev
	$(DEV)/python tools/mutate/run.py $(if $(SEED),--seed $(SEED))
	$(DEV)/python tools/mutate/run.py --named
	$(DEV)/python -m tools.pages.proof

# An hour or two, resumable: healthy runs drawn by SEED, guard off and on; then docs/ordinary.md is
# made of the records. A record of other sources of the guard is made again. UNTIL=HH:MM stops it.
ORDINARY = $(DEV)/python -m tools.ordinary.campaign $(if $(SEED),--seed $(SEED)) $(if $(UNTIL),--until $(UNTIL))
ordinary: dev
	@$(ENVS) make trl swift llamafactory flagembedding colossalai
	for world in 1 2 3 4; do $(ORDINARY) --world $$world || exit 1; done
	$(ORDINARY) --long
	$(DEV)/python -m tools.pages

# Half an hour, resumable: silent errors put into small runs, and healthy runs; then
# docs/ledger_tried.md is made of the records. A record of other sources is made again.
ledger: dev
	@$(ENVS) make trl
	$(DEV)/python -m tools.ledger.campaign $(if $(UNTIL),--until $(UNTIL))
	$(DEV)/python -m tools.pages

# Minutes, resumable: every class of transformers with a tower, tiny, and what the blank input does in
# it; then docs/zoo.md is made of the records. A record of other sources is made again.
zoo: dev
	@$(ENVS) make trl
	$(DEV)/python -m tools.zoo.campaign
	$(DEV)/python -m tools.pages

# An hour or two, resumable: cells of these classes in two real ranks, guard off and on.
zoo-runs: dev
	@$(ENVS) make trl
	$(DEV)/python -m tools.zoo.runs $(if $(MINUTES),--minutes $(MINUTES))
	$(DEV)/python -m tools.pages

# An hour, resumable: public repositories by their own scripts, guard off and on. CHECKOUTS is a folder
# with one checkout a repository, by the repository's name. ONLY=WORD picks.
repositories: dev
	@test -d "$(CHECKOUTS)" || { echo "make repositories CHECKOUTS=FOLDER: with a checkout of each repository"; exit 2; }
	@$(ENVS) make trl
	$(DEV)/python -m tools.repositories.campaign $(CHECKOUTS) $(if $(ONLY),--only "$(ONLY)")
	$(DEV)/python -m tools.pages

# Every cell of docs/matrix.md that has no record yet, guard off and on; stop and go on at will.
matrix: dev
	@$(ENVS) make trl colossalai
	$(PYTHON) tools/matrix/campaign.py
	$(DEV)/python -m tools.matrix.commands
	$(DEV)/python -m tools.pages

# Hours, resumable: the example scripts of ms-swift that train, rehearsed with stand-ins. SCRIPTS is a
# checkout of its repository. Then docs/rehearsals.md is made of all that was rehearsed.
REHEARSES = PYTHONPATH=$(CURDIR)/tests/kit/standins:$(CURDIR)/tests/kit/programs:$(CURDIR):$(CURDIR)/plugins
rehearse-all: dev
	@test -d "$(SCRIPTS)/examples" || { echo "make rehearse-all SCRIPTS=FOLDER: a checkout of ms-swift's repository"; exit 2; }
	@$(ENVS) make swift
	$(REHEARSES) $(ENVS_HOME)/swift/bin/python -m tools.scripts.campaign $(SCRIPTS) --commit $$(git -C $(SCRIPTS) rev-parse HEAD)
	$(DEV)/python -m tools.pages

# The same, resumable, of commands that real gloo ranks are run on, too.
rehearse-jobs: dev
	@$(ENVS) make swift trl llamafactory flagembedding
	$(REHEARSES) $(ENVS_HOME)/trl/bin/python -m tests.frameworks.rehearse.jobs trl
	$(REHEARSES):$(CURDIR)/tests/kit/stubs $(ENVS_HOME)/llamafactory/bin/python -m tests.frameworks.rehearse.jobs llamafactory
	$(REHEARSES) $(ENVS_HOME)/flagembedding/bin/python -m tests.frameworks.rehearse.jobs flagembedding
	$(REHEARSES) $(ENVS_HOME)/swift/bin/python -m tests.frameworks.rehearse.jobs swift --shares
	$(DEV)/python -m tools.pages

# Hours, resumable: the frameworks' own tests with the guard off and on. Each argument is a checkout
# with its tests; TRL's answers the hub ids of all of them with tiny models (.suites/hub).
suites: dev
	@test -n "$(TRANSFORMERS)$(ACCELERATE)$(TRL)$(PEFT)" || { echo "make suites TRANSFORMERS=FOLDER ACCELERATE=FOLDER TRL=FOLDER PEFT=FOLDER: checkouts, any of them"; exit 2; }
	@$(ENVS) make trl $(if $(TRANSFORMERS),llamafactory)
	$(DEV)/python -m tools.suites.run $(if $(TRL),trl=$(TRL)) $(if $(ACCELERATE),accelerate=$(ACCELERATE)) \
	  $(if $(PEFT),peft=$(PEFT)) $(if $(TRANSFORMERS),transformers=$(TRANSFORMERS)); code=$$?; \
	  $(DEV)/python -m tools.pages && exit $$code

# What most changes need: one small environment, under a minute. Some tests only wait for processes:
# one worker more than cores.
fast: dev
	$(DEV)/python -m pytest -m "not frameworks" -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) || { $(AGAIN) -m "not frameworks"; }

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
	$(DEV)/python -m tools.pages
	$(DOCS)/python -m tools.pages.make_site build
	$(DOCS)/python -m tools.pages.make_site look --only-some

# Every page, as pictures under .site/shots.
shots: site
	$(DOCS)/python -m tools.pages.make_site look

# What goes on an index: dist/*.tar.gz and dist/*.whl, checked.
dist: dev docs
	rm -rf dist
	$(DEV)/python -m build --no-isolation --outdir dist .
	$(DOCS)/python -m twine check --strict dist/*

# Half an hour and 8 GB of disk: each extra in a new environment, from the wheel, resolved by pip, and
# tried. ONLY='trl swift' names some. Then docs/start/extras.md is made of the records.
extras: dist
	$(DEV)/python -m tools.extras.campaign $(ONLY); code=$$?; $(DEV)/python -m tools.pages && exit $$code

# What vlmguard costs, into docs/benchmarks.md: about 45 minutes on an idle machine.
# PARTS='start pre_step watch' are the short ones (two minutes); `python -m tools.bench -h` names all.
PARTS ?=
bench: dev
	@$(ENVS) make swift trl
	$(DEV)/python -m tools.bench $(if $(PARTS),--only $(PARTS)); code=$$?; \
	  $(DEV)/python -m tools.pages && exit $$code

# What only a GPU can tell, into docs/gpu.md: at most ten minutes. GPU_PYTHON has torch with CUDA and
# transformers; WHEELS is a folder of what it lacks. `make gpu GPU_FLAGS=--cpu` rehearses it.
GPU_PYTHON ?= python3
WHEELS ?= $(wildcard .gpu/wheels)
GPU_FLAGS ?=
gpu:
	@mkdir -p .gpu
	PYTHONPATH=$(CURDIR):$(CURDIR)/plugins $(GPU_PYTHON) tools/gpu/run.py $(if $(WHEELS),--wheels $(WHEELS)) --out .gpu/gpu.json $(GPU_FLAGS)
	@echo "cp .gpu/gpu.json docs/data/ and python -m tools.pages make docs/gpu.md of it"

# .gpu/wheels: vlmguard, pluggy, packaging, peft and accelerate, a few MB; to be copied with tools/gpu.
gpu-wheels: dev
	rm -rf .gpu/wheels && mkdir -p .gpu/wheels
	$(DEV)/python -m build --no-isolation --wheel --outdir .gpu/wheels .
	$(DEV)/python -m pip download -q --no-deps -d .gpu/wheels pluggy packaging peft accelerate psutil

clean:
	rm -rf .envs .gpu .suites dist site
