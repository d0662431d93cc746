# The two commands: `make demo` and `make test`. Everything else is CMake; see CMakePresets.json.
JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python

.DEFAULT_GOAL := build
.PHONY: build setup setup-test configure demo test test-cuda test-long asan tsan fuzz bench bench-cuda lint format install clean

setup:
	@scripts/setup

# Before the build: with Open MPI there, the plugin is built, and tested.
setup-test:
	@scripts/setup test

# The demo needs neither Python's headers nor nanobind.
build: OPTIONS := -DHEADLENS_PYTHON=ON
configure: setup
	@cmake --preset release $(OPTIONS) > build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }; rm -f build.log

build: configure
	@cmake --build --preset release -j $(JOBS)

# The program alone, without its tests: a visitor waits for this.
demo: configure
	@cmake --build --preset release -j $(JOBS) --target headlens_app
	@examples/demo

# Files of tests in Python are handed out in this order: the longest first, so that no core is idle at the end.
LONGEST := $(addprefix tests/, cli/test_documentation.py cli/test_ranks.py python/test_sklearn.py golden cli/test_command_line.py \
             install cli/test_interruption.py python/test_automatic.py python/test_notebooks.py)
test: setup-test build
	@ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS)
	@PYTHONPATH=build/python $(PYTHON) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder $(LONGEST) tests/cli tests/python

# Every test that runs on back ends, on the device; fails where there is none.
test-cuda: configure
	@cmake --build --preset release -j $(JOBS) --target headlens_app test_backend
	@build/headlens info | grep "cuda"
	@! build/headlens info | grep -q "cuda: not available"
	@build/tests/test_backend --gtest_filter='*/cuda'

# The same tests under sanitizers, fuzzing, the statistical tables and Musk1: about half an hour.
test-long: test asan tsan fuzz
	@scripts/setup slurm
	@PYTHONPATH=build/python $(PYTHON) -m pytest -q tests/long

asan tsan: setup
	@cmake --preset $@ && cmake --build --preset $@ -j $(JOBS) --target headlens_tests
	@ctest --preset $@ -j $(JOBS)

fuzz:
	@scripts/setup dev
	@cmake --preset fuzz && cmake --build --preset fuzz -j $(JOBS)
	@fuzz/run 60

# Every part runs, whatever became of the others; the target fails if one did. About two hours.
BENCH_PARTS := feature_map fit predict kernels_speed recovery growth python_overhead "startup --build" table
bench: build
	@scripts/setup bench
	@failed=; for part in $(BENCH_PARTS); do \
	  set -- $$part; script=bench/$$1.py; shift; \
	  echo "== $$script $$*"; PYTHONPATH=build/python $(PYTHON) $$script "$$@" || failed="$$failed $$script"; \
	done; \
	[ -z "$$failed" ] || { echo "bench: failed:$$failed"; exit 1; }

# Against PyTorch on the same device: python3 must be one that has it. About a minute.
bench-cuda: OPTIONS := -DHEADLENS_BENCH=ON
bench-cuda: configure
	@cmake --build --preset release -j $(JOBS) --target bench_cuda headlens_app headlens_cuda
	@python3 bench/cuda.py
	@python3 bench/cuda_recovery.py

lint:
	@scripts/setup dev
	@scripts/lint

format:
	@scripts/setup dev
	@git ls-files -z '*.cpp' '*.hpp' | xargs -0 clang-format -i

install: build
	@cmake --install build

clean:
	@rm -rf build
