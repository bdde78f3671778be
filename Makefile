# The two commands of the README are `make demo` and `make test`. `make help` lists the rest.

# CI runs in a fresh clone each time: what is built is kept outside of it.
CACHE ?= $(or $(PODWRIGHT_LAB_CACHE),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/podwright,$(HOME)/.cache/podwright))
ifdef CI
export CARGO_TARGET_DIR ?= $(CACHE)/target
endif
CARGO ?= cargo
IMG ?= podwright:latest
KIND_CLUSTER_NAME ?= podwright
export PODWRIGHT_REVISION ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
# The revision is for released binaries: in the tests it would only cost a rebuild at each commit.
test demo e2e lint bench: export PODWRIGHT_REVISION =

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: need-cargo need-go
need-cargo:
	@command -v $(CARGO) >/dev/null || { echo "Rust is needed (cargo was not found): see https://rustup.rs" >&2; exit 1; }
need-go:
	@command -v go >/dev/null || [ -n "$$KUBEBUILDER_ASSETS" ] || { echo "Go 1.26 or newer is needed to build the lab's control plane (go was not found): see https://go.dev/dl" >&2; exit 1; }

# A real registry for the tests, from the system's packages: installed where that can be done, else named.
.PHONY: need-registry
need-registry:
	@command -v docker-registry >/dev/null || command -v registry >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get install --yes docker-registry || { apt-get update && apt-get install --yes docker-registry; }; }; \
	} || { echo "A registry is needed (docker-registry was not found): apt-get install docker-registry" >&2; exit 1; }

##@ The two commands

.PHONY: demo
demo: need-cargo need-go need-registry ## Show every feature on a real control plane (DEMO_ARGS=--once: then exit)
	$(CARGO) build --locked --package podwright --package podwright-lab
	$(CARGO) run --quiet --locked --package podwright-lab -- demo $(DEMO_ARGS)

.PHONY: test
test: need-cargo need-go need-registry lint ## Format, lints, generated files, layers, unit, property and lab tests
	$(CARGO) build --locked --package podwright --package podwright-lab
	$(CARGO) run --quiet --locked --package podwright-lab -- build
	$(CARGO) test --locked --workspace

##@ Development

.PHONY: build
build: need-cargo ## Build the release binaries
	$(CARGO) build --release --locked --package podwright --package podwright-lab

.PHONY: manager
manager: build ## The same, by the name that kubebuilder projects use

.PHONY: run
run: need-cargo ## Run the manager against the cluster of your kubeconfig
	$(CARGO) run --locked --package podwright -- manager $(RUN_ARGS)

.PHONY: fmt
fmt: need-cargo ## Format the code
	$(CARGO) fmt --all

.PHONY: generate
generate: need-cargo ## Write the generated files
	$(CARGO) xtask gen

.PHONY: lint
lint: need-cargo ## Format, layers, generated files, clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(CARGO) xtask layers
	$(CARGO) xtask gen --check

.PHONY: deny
deny: ## Licences and duplicate dependencies (needs cargo-deny)
	$(CARGO) deny check bans licenses sources

.PHONY: e2e
e2e: need-cargo need-go need-registry ## Only the tests on the real control plane
	$(CARGO) build --locked --package podwright --package podwright-lab
	$(CARGO) test --locked --package podwright --test e2e --test timed -- $(TEST)

.PHONY: bench
bench: need-cargo need-go need-registry ## Measure: admission, sizing, architecture, distribution, rollout (BENCH_ARGS="admission --peer URL": only that, beside another webhook)
	$(CARGO) run --release --locked --package xtask -- bench $(or $(BENCH_ARGS),admission)
	$(if $(BENCH_ARGS),,$(CARGO) run --release --locked --package xtask -- bench sizing)
	$(if $(BENCH_ARGS),,$(CARGO) run --release --locked --package xtask -- bench architecture)
	$(if $(BENCH_ARGS),,$(CARGO) run --release --locked --package xtask -- bench distribution)
	$(if $(BENCH_ARGS),,$(CARGO) run --release --locked --package xtask -- bench rollout --rounds 1)

.PHONY: generate-certs
generate-certs: need-cargo ## Write ./_certs/{ca.crt,tls.crt,tls.key} for --cert-dir
	$(CARGO) run --quiet --locked --package podwright -- certs --dir _certs

.PHONY: clean
clean: ## Remove what was built here (the lab's binaries stay in the cache)
	$(CARGO) clean
	rm -rf _certs

##@ Clusters

.PHONY: image docker-build
image docker-build: build ## Build the container image IMG
	docker build --tag $(IMG) --file deploy/Dockerfile $(or $(CARGO_TARGET_DIR),target)/release

.PHONY: docker-push
docker-push: ## Push the container image IMG
	docker push $(IMG)

.PHONY: deploy-manifests
deploy-manifests: ## Print the manifests with the image IMG
	@kubectl kustomize deploy/base | sed 's|image: podwright:latest|image: $(IMG)|'

.PHONY: install
install: ## Install the CRDs into the cluster of your kubeconfig
	kubectl apply --server-side --filename deploy/crds

.PHONY: uninstall
uninstall: ## Remove the CRDs, and with them every object of theirs
	kubectl delete --ignore-not-found --filename deploy/crds

.PHONY: deploy
deploy: install ## Install into the cluster of your kubeconfig, with the image IMG
	$(MAKE) --no-print-directory deploy-manifests | kubectl apply --filename -

.PHONY: undeploy
undeploy: ## Remove from the cluster of your kubeconfig
	$(MAKE) --no-print-directory deploy-manifests | kubectl delete --ignore-not-found --filename -

.PHONY: deploy-samples
deploy-samples: ## Apply the examples
	kubectl apply --recursive --filename examples

.PHONY: kind-cluster
kind-cluster: ## Create a kind cluster
	kind create cluster --name $(KIND_CLUSTER_NAME)

.PHONY: kind-deploy
kind-deploy: docker-build ## Load the image into the kind cluster and install
	kind load docker-image $(IMG) --name $(KIND_CLUSTER_NAME)
	$(MAKE) --no-print-directory deploy
