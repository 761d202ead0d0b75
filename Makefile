# Every target does its own set-up in .venv and build/; the work is in scripts/make.py.

.DEFAULT_GOAL := help
.PHONY: help demo train test bench bench-compare wheel capi fuzz docs lint format clean

# The first interpreter that is new enough and runs (a version manager's shim may exist and not run).
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)

define run
@test -n "$(PYTHON)" || { echo "No Python >= 3.11 on PATH. Install one, or say which: make PYTHON=/path/to/python3 $@" >&2; exit 1; }
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) is older than Python 3.11")'
@"$(PYTHON)" -B scripts/make.py $@ $(OPTIONS)
endef

help: ## list the targets (default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## quantize a real model, run a layer of it on the simulated core: errors and timeline
	$(run)

train: ## a small decoder trained in Trainium's arithmetic by eight recipes: which orderings show
	$(run)

test: ## all tests and checks, Rust and Python
	$(run)

bench: ## speed beside NumPy, ml_dtypes and torch; writes docs/explanation/performance.md
	$(run)

bench-compare: OPTIONS = --base "$(BASE)" $(if $(K),-k "$(K)") $(if $(PAIRS),--pairs $(PAIRS))
bench-compare: ## the benches (or those that K selects) with revision BASE and as it stands, in turn, PAIRS times
	$(run)

wheel: ## an abi3 wheel in dist/, on Linux for glibc 2.28 and newer
	$(run)

capi: OPTIONS = $(if $(PREFIX),--prefix "$(PREFIX)")
capi: ## the C library, header and pkg-config file in build/capi, or under PREFIX
	$(run)

fuzz: OPTIONS = $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PROGRAMS),--programs $(PROGRAMS)) $(TARGETS)
fuzz: ## random inputs to the C library, two minutes (or SECONDS) for each of all TARGETS; 100,000 (or PROGRAMS) to the compiler
	$(run)

docs: ## HTML documentation in build/docs/html
	$(run)

lint: ## formatting, clippy, ruff and types, without tests
	$(run)

format: ## format Rust and Python sources in place
	$(run)

clean: ## remove everything that was built, downloaded crates excepted
	$(run)
