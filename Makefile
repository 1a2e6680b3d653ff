# Every target brings what it needs; nothing else has to be installed by hand.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/episode-operator
UV_VERSION := 0.13.9
UV := $(CACHE)/uv-$(UV_VERSION)/bin/uv
PYTHON := .venv/bin/python
TESTBED := $(PYTHON) -m tests.testbed
export UV_LINK_MODE := copy

.PHONY: help
help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(UV):
	@echo "installing uv $(UV_VERSION)"
	@python3 -m venv $(CACHE)/uv-$(UV_VERSION)
	@for n in 1 2 3; do $(CACHE)/uv-$(UV_VERSION)/bin/pip install -q uv==$(UV_VERSION) && exit 0; sleep $$n; done; exit 1

.venv/installed: pyproject.toml requirements/dev.lock | $(UV)
	@echo "installing the locked Python dependencies"
	@$(UV) venv -q --allow-existing --python python3 .venv
	@for n in 1 2 3; do $(UV) pip sync -q --require-hashes --python $(PYTHON) requirements/dev.lock && break; [ $$n = 3 ] && exit 1; sleep $$n; done
	@$(UV) pip install -q --python $(PYTHON) --no-deps -e .
	@touch $@

.PHONY: lock
lock: | $(UV) ## Lock the dependencies of pyproject.toml again.
	$(UV) pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 pyproject.toml -o requirements/operator.lock
	$(UV) pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 --extra bridge pyproject.toml -o requirements/bridge.lock
	$(UV) pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 --all-extras --group dev pyproject.toml -o requirements/dev.lock

.PHONY: demo
demo: .venv/installed ## Bring everything up and run the examples end to end.
	@$(PYTHON) -m examples.demo

.PHONY: test
test: .venv/installed ## Pass all checks and tests, on a real cluster with a real vLLM.
	@$(PYTHON) -m tests

.PHONY: testbed
testbed: .venv/installed ## Bring up the testbed: Kubernetes, registry, images, model, vLLM.
	@$(TESTBED) up

.PHONY: testbed-down
testbed-down: .venv/installed ## Stop the testbed and leave nothing behind.
	@$(TESTBED) down

.PHONY: testbed-status
testbed-status: .venv/installed ## Show what of the testbed runs.
	@$(TESTBED) status

.PHONY: images
images: .venv/installed ## Build images with Docker or buildah and push them to REGISTRY; IMAGES="operator runner".
	@UV=$(UV) $(PYTHON) -m images.build $(if $(REGISTRY),--registry $(REGISTRY),--registry $$($(TESTBED) registry) --plain-http) $(if $(BASE),--base $(BASE)) $(IMAGES)

.PHONY: sbom
sbom: .venv/installed ## Write a bill of materials of each image into dist/sbom; BASE as for images.
	@$(PYTHON) -m images.release sbom $(if $(BASE),--base $(BASE))

.PHONY: release
release: .venv/installed ## Fill dist/ with wheel, chart, SBOMs and checksums; see docs/releasing.md.
	@$(PYTHON) -m images.release build $(if $(BASE),--base $(BASE)) $(if $(TAG),--tag $(TAG)) $(if $(REFERENCES),--references $(REFERENCES))

.PHONY: crds
crds: .venv/installed ## Write crds/*.yaml and docs/reference.md from the pydantic models.
	@$(PYTHON) -m episode_operator.api

.PHONY: crds-check
crds-check: .venv/installed ## Fail if crds/*.yaml or docs/reference.md differ from the models.
	@$(PYTHON) -m episode_operator.api --check

.PHONY: kustomize
kustomize: .venv/installed ## Write the kustomize base from the chart.
	@$(PYTHON) -m tests.testbed.kustomize

.PHONY: kustomize-check
kustomize-check: .venv/installed ## Fail if the kustomize base differs from the chart.
	@$(PYTHON) -m tests.testbed.kustomize --check

.PHONY: lint
lint: .venv/installed ## Check style, import layers and Go formatting.
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports
	@test -z "$$(gofmt -l images/runner)" || { gofmt -l images/runner; exit 1; }
	@cd images/runner && go vet ./...

.PHONY: type
type: .venv/installed ## Check types, strictly.
	@.venv/bin/mypy

.PHONY: learn
learn: .venv/installed ## Train a small model through Episodes, on a CPU; OPTIONS="--seed 1".
	@$(PYTHON) -m examples.learning $(OPTIONS)

.PHONY: humaneval
humaneval: .venv/installed ## Run all 164 HumanEval problems as Episodes, right and mutilated.
	@$(PYTHON) -m tests.humaneval

.PHONY: chaos
chaos: .venv/installed ## Run N Episodes under random faults; SEED=7 repeats a run.
	@$(PYTHON) -m tests.chaos --count $(or $(N),200) $(if $(SEED),--seed $(SEED))

.PHONY: bench
bench: .venv/installed ## Measure; BENCH=exec, start, opd, bridge or view.
	@$(PYTHON) -m tests.bench $(BENCH)

.PHONY: screenshots
screenshots: .venv/installed ## Take the screenshots of the web view for docs/ anew.
	@$(PYTHON) -m tests.browser.screenshots

.PHONY: fuzz
fuzz: .venv/installed ## Look for inputs that break a reader; FUZZ=target picks one, SECONDS=60 each.
	@$(PYTHON) -m tests.fuzz $(FUZZ) --seconds $(or $(SECONDS),60)
