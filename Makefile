# The two commands of a newcomer are `make up` and `make test`; both set up everything they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CHECKOV := .checkov
DISTRIBUTIONS := protos $(wildcard packages/*) $(wildcard services/*) gateway
IMAGES := $(notdir $(wildcard services/*) gateway)
PYPROJECTS := $(wildcard $(addsuffix /pyproject.toml,$(DISTRIBUTIONS)))

.PHONY: help
help: ## Show what there is to make.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

# --- the environment -------------------------------------------------------------------------------------------------

$(VENV)/installed: requirements.lock $(PYPROJECTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; set PYTHON=")'
	@echo "Setting up $(VENV) (once, about a minute) ..."
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation $(patsubst %/pyproject.toml,-e %,$(PYPROJECTS))
	@touch $@

$(VENV)/tools: $(VENV)/installed requirements-tools.lock
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-tools.lock
	@touch $@

.PHONY: venv tools lock
venv: $(VENV)/installed ## Make the virtual environment.
tools: $(VENV)/tools ## Add what only developers need: linters, type checker, code generators.

lock: ## Resolve all dependencies anew into the lock files (uv comes with `make tools`).
	$(BIN)/uv lock --quiet --upgrade
	$(BIN)/uv export --quiet --frozen --all-packages --all-extras --no-emit-workspace --no-header --no-annotate \
	  --group build --group test --format requirements.txt --output-file requirements.lock
	$(BIN)/uv export --quiet --frozen --package feed-mesh $(IMAGES:%=--package feed-%) --no-emit-workspace --no-header --no-annotate \
	  --group images --format requirements.txt --output-file requirements-images.lock
	$(BIN)/uv export --quiet --frozen --only-group tools --only-group manifests --no-header --no-annotate \
	  --format requirements.txt --output-file requirements-tools.lock
	rm uv.lock

# --- contracts -------------------------------------------------------------------------------------------------------

GEN ?= protos/gen

.PHONY: protos buf
protos: $(VENV)/tools ## Generate messages, stubs and their types from the contracts.
	@rm -rf $(GEN) && mkdir -p $(GEN)/feed $(GEN)/buf && touch $(GEN)/feed/py.typed $(GEN)/buf/py.typed
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I protos -I protos/third_party \
	  --python_out=$(GEN) --mypy_out=quiet:$(GEN) \
	  buf/validate/validate.proto
	@cd protos && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python -m grpc_tools.protoc -I . -I third_party \
	  --python_out=$(abspath $(GEN)) --mypy_out=quiet:$(abspath $(GEN)) \
	  --grpc_python_out=$(abspath $(GEN)) --mypy_grpc_out=quiet:$(abspath $(GEN)) \
	  $$(find feed -name '*.proto' | sort)

buf: $(VENV)/tools ## Lint the contracts, and refuse changes that break callers of main.
	@$(BIN)/buf lint && $(BIN)/buf format --diff --exit-code
	@! git rev-parse --quiet --verify origin/main:buf.yaml > /dev/null || $(BIN)/buf breaking --against '.git#ref=refs/remotes/origin/main'

# --- run -------------------------------------------------------------------------------------------------------------

.PHONY: up down
up: $(VENV)/installed ## Run the whole mesh here, in the foreground; ARGS="--help" shows the options.
	@$(BIN)/python -m devmesh up $(ARGS)

down: $(VENV)/installed ## Stop a mesh that `make up` started elsewhere.
	@$(BIN)/python -m devmesh down

# --- images ----------------------------------------------------------------------------------------------------------

# The tag of the manifests, which say in one place what runs.
VERSION := $(shell sed -n 's/.*newTag: //p' k8s/base/kustomization.yaml | sort -u)
ENGINE ?= docker

.PHONY: images bases
images: ## Build the images; ENGINE=podman, and BASES=local where no registry can be reached.
	@for dockerfile in gateway/Dockerfile services/*/Dockerfile; do \
	  image=feed/$$(basename $$(dirname $$dockerfile)):$(VERSION); \
	  $(ENGINE) build --quiet $(BUILD_OPTIONS) --file $$dockerfile --tag $$image . > /dev/null && echo $$image || exit 1; \
	done

bases: $(VENV)/installed
	@tests/k8s/bases/build

ifeq ($(BASES),local)
images: bases
ENGINE := podman
# Nothing is pulled, and packages are fetched as this machine fetches them.
BUILD_OPTIONS := --pull=never --network host $(foreach path,$(wildcard /etc/pip.conf /etc/ssl/certs),--volume $(path):$(path):ro)
export CONTAINERS_CONF := $(CURDIR)/tests/k8s/bases/containers.conf
endif

# --- tests -----------------------------------------------------------------------------------------------------------

.PHONY: test test-unit test-long test-oracle test-k8s bench
test: $(VENV)/installed ## Run all tests: units first, then real servers and real processes.
	@$(BIN)/python -m pytest -m "not long and not real and not manifests and not cluster" $(ARGS)

# The suite of the mesh, on each combination of tests/servers/combinations.py: all of it once, and on a Redis Cluster what
# works on keys of many people. Last what tests single parts on such servers.
ON = DEVMESH_SERVERS=tests.servers.combinations:$(1) $(BIN)/python -m pytest -m "not long and not manifests and not cluster"
PROGRAMMES := tests/oracle/test_random_programmes.py::test_every_walk_equals_the_oracle_whatever_happens
ON_CLUSTER := test_fan_out test_lost_keys test_celebrity_line test_ranked_feed test_everything_at_once

.PHONY: test-real
test-real: $(VENV)/installed ## Run the mesh's tests on Apache Kafka, Redis 7, a Redis Cluster and PgBouncer; installs those.
	@tests/servers/install
	@$(call ON,REAL) tests/mesh tests/faults tests/contract tests/servers $(PROGRAMMES) $(ARGS)
	@$(call ON,CLUSTER) $(ON_CLUSTER:%=tests/mesh/%.py) $(ARGS)
	@$(BIN)/python -m pytest -m real packages services gateway $(ARGS)

test-unit: $(VENV)/installed ## Run what needs no server; seconds.
	@$(BIN)/python -m pytest -m "not integration and not long and not real and not manifests and not cluster" -q $(ARGS)

test-long: $(VENV)/installed ## Run what takes many minutes.
	@$(BIN)/python -m pytest -m long --timeout 3600 $(ARGS)

test-oracle: $(VENV)/installed ## Run random programmes; MINUTES=10 says how long, SEED=… that of an earlier run.
	@$(BIN)/python -m tests.oracle --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

test-k8s: $(VENV)/tools $(CHECKOV)/installed ## Check the manifests, then run the rendered mesh in containers (as root; installs podman).
	@tests/k8s/install
	@$(BIN)/python -m pytest -m manifests tests/k8s $(ARGS)
	@$(BIN)/python -m pytest -m cluster tests/k8s $(ARGS)

# It wants other versions of what we use too, so it has an environment and a lock of its own, which `make lock` does not touch:
# uv pip compile --universal --generate-hashes --no-annotate --no-header --python-version 3.11 --output-file tests/k8s/checkov.lock <(echo checkov)
$(CHECKOV)/installed: tests/k8s/checkov.lock | $(VENV)/tools
	@$(PYTHON) -m venv --clear $(CHECKOV)
	@$(CHECKOV)/bin/python -m pip install --quiet --require-hashes -r $<
	@touch $@

bench: $(VENV)/installed ## Measure; writes bench/results.json.
	@$(BIN)/python -m tests.bench $(ARGS)

# --- checks ----------------------------------------------------------------------------------------------------------

.PHONY: check lint types format drift configuration
check: lint types buf drift ## Run every check that is not a test.

lint: $(VENV)/tools
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .

format: $(VENV)/tools ## Format the code and the contracts.
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --quiet --fix . && $(BIN)/buf format -w

types: $(VENV)/tools
	@$(BIN)/pyright

# Generated elsewhere, so that whatever runs meanwhile finds the contracts.
drift: configuration ## Fail if anything generated is not what is committed.
	@$(MAKE) --no-print-directory protos GEN=build/protos && diff -r --exclude=__pycache__ build/protos protos/gen
	@git diff --exit-code --stat -- docs/configuration.md

configuration: $(VENV)/installed ## Generate docs/configuration.md from the settings.
	@$(BIN)/python docs/generate_configuration.py
