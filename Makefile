# The verbs of the project. `make demo` and `make test` set up everything that they need.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready-$(shell cat pyproject.toml constraints.txt requirements.lock | cksum | cut -d' ' -f1)
STUBS := clients/python/hightide/v1

# A test run starts a thousand Pythons: they are to find their modules compiled, also where an image or a CI says
# that none shall be.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test lint types layers proto proto-check proto-released blocking blocking-check docs docs-test unit sim clusters integration spark spark-versions installs e2e console-browser console-pictures soak fuzz lock sbom audit slow mutants clean

# First a new pip, which is quicker, and all packages, held to the hashes of requirements.lock. Then this project, which
# has no hash, with what only another platform or Python needs.
#
# Of the two PySparks that pip brings, Spark's workers would take the archive, which is for machines that have no other,
# and compile it anew in each process: most of what they do in the 10 s in which they must have started.
setup: $(STAMP)
	-@rm -f $(VENV)/lib/python*/site-packages/pyspark/python/lib/pyspark.zip
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit("Hightide needs Python 3.11 or later; this is %s. Say which with: make PYTHON=python3.12" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	sed -n '/^pip==/,/[^\]$$/p' requirements.lock > $(VENV)/pip.lock
	$(PIP_INSTALL) --require-hashes -r $(VENV)/pip.lock
	$(PIP_INSTALL) --require-hashes --no-deps --build-constraint requirements.lock -r requirements.lock
	$(PIP_INSTALL) -c constraints.txt --no-build-isolation -e . --group dev
	$(BIN)/python -m hightide_local.processes.making_class_archive
	rm -f $(VENV)/.ready-* && touch $@

demo: setup
	@$(BIN)/hightide demo $(if $(filter 1 yes true,$(TLS)),--tls) $(if $(COORDINATION),--coordination $(COORDINATION))$(if $(filter 1 yes true,$(CONSOLE)), --console)

# Two parts at a time, so that no processor waits while a part ends on one worker. The cluster of the pages has the
# ports of `dev up`, and loses one for a while where a page kills a broker: no other part with such a cluster may run
# beside docs-test. A make that can shows the output of each part when it has ended.
SIDE_BY_SIDE = $(MAKE) -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
test: setup
	$(SIDE_BY_SIDE) lint layers proto-check blocking-check types unit sim
	$(SIDE_BY_SIDE) docs-test spark
	$(MAKE) clusters

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
types: setup
	$(BIN)/mypy
layers: setup
	$(BIN)/lint-imports

proto: setup
	$(BIN)/buf lint
	rm -f $(STUBS)/*_pb2*.py* $(STUBS)/descriptors.binpb
	$(BIN)/python -m grpc_tools.protoc -I protos --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy \
	  --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc --python_out=clients/python \
	  --grpc_python_out=clients/python --mypy_out=clients/python --mypy_grpc_out=clients/python \
	  --include_source_info --descriptor_set_out=$(STUBS)/descriptors.binpb \
	  $$(find protos -name '*.proto' | sort | sed 's|^protos/||')
proto-check: setup
	$(BIN)/buf lint
	$(BIN)/buf breaking --against protos/released.binpb
	$(BIN)/python tests/stubs_are_fresh.py
# The contract as clients out there know it. Renewed with each release, and at no other time.
proto-released: setup
	$(BIN)/buf build --exclude-source-info -o protos/released.binpb

# The blocking clients of the SDK, from the asyncio ones.
blocking: setup
	$(BIN)/python clients/python/blocking_twins.py
blocking-check: setup
	$(BIN)/python clients/python/blocking_twins.py --check

# What docs/ says of settings, errors, metrics and commands, from the code.
docs: setup
	$(BIN)/python docs/generate.py
docs-test: setup
	$(BIN)/pytest -q --durations 5 tests/docs

# In memory, where there is enough: tests of the storage make and sync thousands of small files, which takes a disk more
# time than all else that they do. What a power cut leaves of a file they decide themselves.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 1000000 { print "/dev/shm" }')
unit: setup
	$(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY) )$(BIN)/pytest -q -n 2 -o tmp_path_retention_policy=failed tests/unit
# The same schedules each time: sets of names have no order of their own.
sim: setup
	PYTHONHASHSEED=0 $(BIN)/pytest -q -n 2 tests/sim
# More workers than processors, since tests with clusters use a third of one each; files that may take long begin
# first. The two in one run: otherwise most workers have nothing to do while the demo or a benchmark ends.
WITH_CLUSTERS = $(BIN)/pytest -q -n 5 --dist loadfile --no-loadscope-reorder -m "not soak" --durations 15
clusters: setup
	$(WITH_CLUSTERS) tests/e2e tests/integration
integration: setup
	$(WITH_CLUSTERS) tests/integration
spark: setup
	$(BIN)/pytest -q --durations 10 tests/spark
e2e: setup
	$(WITH_CLUSTERS) tests/e2e

# The console in Debian's Chromium (apt-get install chromium, or HIGHTIDE_CHROMIUM=PATH). Not in `make test`: it takes
# minutes, and few machines that run tests have a browser.
console-browser: setup
	$(BIN)/pytest -q --durations 10 tests/console_browser
# What docs/console.md shows, from a cluster that loses a broker meanwhile. Look at the pictures before you commit them.
console-pictures: setup
	PYTHONPATH=tests $(BIN)/python -m console_browser.pictures docs/pictures

# Each Spark that Hightide works with, in an environment of its own below SPARK_VENVS: 450 MB each, so not in `make test`.
# make spark-versions SPARK_VERSIONS=4.1.4 SPARK_VENVS=/tmp/sparks
SPARK_VERSIONS ?= 4.0.5 4.1.4 4.2.1
SPARK_VENVS ?= $(or $(TMPDIR),/tmp)/hightide-sparks
SPARK_ENVIRONMENTS = $(SPARK_VERSIONS:%=$(SPARK_VENVS)/%/.ready)
$(SPARK_VENVS)/%/.ready: constraints.txt
	mkdir -p $(@D) && grep -v '^pyspark==' constraints.txt > $(@D)/constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(@D)/constraints.txt pyspark==$* '.[connect]'
	rm -f $(@D)/lib/python*/site-packages/pyspark/python/lib/pyspark.zip
	touch $@
.PRECIOUS: $(SPARK_VENVS)/%/.ready
spark-versions: setup $(SPARK_ENVIRONMENTS)
	SPARK_VENVS=$(SPARK_VENVS) $(BIN)/pytest -q --durations 10 tests/spark_versions

# Each kind of install, in a clean environment: what it brings, its size and its time; and the first record within a
# minute. 2 GB of downloads, so not in `make test`.
installs: setup
	$(BIN)/pytest -q -s tests/installs

# What looks for bugs that nobody knows of: schedules and faults that are others each time. make soak FIRST_SEED=7 does
# the same again, and the first that fails says its seed.
SCHEDULES ?= 10000
FUZZ_SECONDS ?= 600
ifndef FIRST_SEED
FIRST_SEED := $(shell date +%s)
endif
soak: setup
	@echo "soak: $(SCHEDULES) random schedules of replicas and as many of groups, a seventh of that with topics, then real clusters under random faults for 4 minutes and under attack for $(FUZZ_SECONDS) s: half an hour in all on 2 processors; FIRST_SEED=$(FIRST_SEED)"
	PYTHONHASHSEED=0 $(BIN)/pytest -q -n 2 -k test_no_schedule_breaks_an_invariant tests/sim/test_random_schedules.py tests/sim/groups \
	  --schedules $(SCHEDULES) --first-seed $(FIRST_SEED)
	PYTHONHASHSEED=0 $(BIN)/pytest -q -n 2 -k test_no_schedule_breaks_an_invariant tests/sim/topics \
	  --schedules $$(($(SCHEDULES) / 7)) --first-seed $(FIRST_SEED)
	$(BIN)/pytest -q -m soak tests/integration
	$(BIN)/hightide bench faults --seconds 200 --season-seconds 50 --seed $(FIRST_SEED)
	$(FUZZ)

# Clusters are sent what nobody would send, at every port and in ZooKeeper, while a normal client works: make fuzz
# FIRST_SEED=7 FUZZ_SECONDS=60 ONLY=tls; the kinds of clusters are plaintext, tls, commanded and zookeeper.
FUZZ = PYTHONPATH=tests $(BIN)/python -m fuzz.run --seconds $(FUZZ_SECONDS) --seed $(FIRST_SEED) $(if $(ONLY),--only $(ONLY))
fuzz: setup
	$(FUZZ)

# Any tests as on a slow machine, to find those that count on a quick one: make slow T=tests/integration/test_x.py
T ?= tests/integration
slow: setup
	PYTHONPATH=tests/slow_machine STALLS=$(or $(STALLS),400:1) $(BIN)/pytest -q -n 4 --dist loadfile -p late_lines $(T)

# One-line bugs in lines that keep records, each of which a test must see. Not in `make test`: it takes half an hour.
# make mutants M=storage, M=flush-syncs-nothing, M='election-*'; LIST=1 tells them.
mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutants.run $(if $(LIST),--list) --workers $(or $(WORKERS),2) $(M)

# The tools of the supply chain have an environment of their own: they are no part of anything, and few need them.
TOOLS := .venv-supply-chain
$(TOOLS)/.ready: docker/supply-chain.lock
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	touch $@

# The hashes of all files of each version in constraints.txt, for every platform. Run it when you have changed one.
LOCK = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock'
lock: $(TOOLS)/.ready
	$(LOCK) --no-deps constraints.txt -o requirements.lock
	$(LOCK) docker/supply-chain.in -o docker/supply-chain.lock
# What each image holds, as CycloneDX in dist/sbom/.
sbom: setup $(TOOLS)/.ready
	$(BIN)/python docker/sbom.py --tool $(TOOLS)/bin/cyclonedx-py --directory dist/sbom $(or $(IMAGE),broker controller coordinator spark)
# Known vulnerabilities of what images and tests install. It asks PyPI, and fails where it cannot, or where PyPI does not
# know a package.
audit: $(TOOLS)/.ready
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r requirements.lock

clean:
	rm -rf $(TOOLS) $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
