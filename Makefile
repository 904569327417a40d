# `make run` and `make test` set everything up by themselves; see `make help`.
.POSIX:
.SUFFIXES:

VENV = .venv
BIN = $(VENV)/bin
# Any Python from 3.11 on: `make PYTHON=/path/to/python3.13`. Unset: the first that works.
PYTHON =
PYTHONS = $(PYTHON) python3 python3.13 python3.12 python3.14 python3.11
# Twice as many as cores, because tests also wait: `make JOBS=16 test`.
JOBS = 4
# Measuring branches takes minutes on Python 3.11, so `make test` does it only where asked: see CONTRIBUTING.md.
COVERAGE =
# How long `make fuzz` and `make soak` take; and one kept input that `make fuzz` replays instead:
# `make fuzz INPUT=tests/fuzz/corpus/sse/found-1`.
MINUTES = 60
INPUT =
# Containers often forbid bytecode; without it every worker and every program under test compiles the tree anew.
BYTECODE = PYTHONDONTWRITEBYTECODE=
PYTEST = $(BYTECODE) $(BIN)/pytest
# pip would compile all that it installs, three quarters of which nothing here imports: half of its processor time. So
# that programs needn't where bytecode is forbidden, what they import is compiled; the rest is when a test imports it.
STARTED = import hivemind.cli.main, hivemind.host.proxy, hivemind.host.server, hivemind_tui.app, hivemind_tui.program.main
# Types of the tests and the manual are for `make check` and `make test-all`.
PRODUCT = hivemind tui mock styles
# Warnings are errors: a link that leads nowhere is one.
DOCS = $(BYTECODE) $(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
# Coverage isn't measured in processes that are forked, and on macOS they may crash in the system's libraries.
WORKERS = -n $(JOBS) --dist worksteal
FORKED = $(if $(filter Darwin,$(shell uname)),$(WORKERS),--forked $(JOBS))
# What is covered is measured with whole programs too, since they are what some modules are for.
QUICK = not slow and not clients$(if $(COVERAGE),, and not e2e)
SUITABLE = import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 	\2/p' Makefile

setup: $(VENV)/.ready ## make .venv with everything in it

run: $(VENV)/.ready ## open the control room on eleven mock agents and a provider's bad day
	@$(BIN)/hivemind-tui --demo

# What takes seconds comes first.
check: lint ## lint, format, types, import contracts, import cycles, and the manual with its links
	$(BIN)/mypy
	$(DOCS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tests/contracts/cycles.py

# Checks run on one core while tests are collected and wait; what is wrong with them comes last.
BESIDE = @log=$$(mktemp); { $(1); } >"$$log" 2>&1 & checks=$$!; \
	trap 'kill $$checks 2>/dev/null; rm -f "$$log"; exit 130' INT TERM; \
	code=0; $(2) || code=$$?; wait $$checks || code=1; cat "$$log"; rm -f "$$log"; exit $$code

test: lint ## lint, the product's types, and the quick tests; with COVERAGE=1 also what they and whole programs cover
	$(call BESIDE,$(BIN)/mypy $(PRODUCT),$(PYTEST) $(if $(COVERAGE),$(WORKERS) --cov,$(FORKED)) -m "$(QUICK)")

# What `make test` leaves out, and what it does only in small.
test-all: $(VENV)/.ready ## after make test: the rest of make check, slow and end-to-end tests, and property tests with many more examples
	$(call BESIDE,$(BIN)/mypy && $(DOCS),$(PYTEST) $(FORKED) -m "slow or e2e or hypothesis" --hypothesis-profile=large)

# Programs are looked for in PATH and in the folders of HIVEMIND_CLIENTS (node_modules/.bin, a venv's bin).
test-clients: $(VENV)/.ready ## try real clients (Claude Code, Codex, Gemini CLI, opencode, aider, SDKs) where they are installed
	$(PYTEST) -n 2 --dist worksteal -m clients tests/clients --clients-json clients.json

clients-table: $(VENV)/.ready ## after make test-clients: write what was tried into the manual
	@$(BIN)/python tests/clients/table.py clients.json docs/figures

# Of llama.cpp, MLX, transformers and vLLM those named are installed into a temporary folder; the last two take gigabytes.
SERVERS = llamacpp mlx
PAIRS = 5
FLAGS =
test-servers: $(VENV)/.ready ## try model servers directly and through HiveMind, and write the manual's table (SERVERS= PAIRS= FLAGS=)
	@PYTHONPATH=mock:tests $(BIN)/python -m benchmarks.servers $(SERVERS) --pairs $(PAIRS) --flags "$(FLAGS)" \
	  --json servers.json --docs docs/figures

CLIENTS =
AIDER = aider
refusals: $(VENV)/.ready ## what agents and SDKs do when refused, into the manual; CLIENTS=FOLDER with node_modules (AIDER=program)
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.refusals --node $(CLIENTS) --aider $(AIDER) --json refusals.json
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.refusals.figures refusals.json docs/figures

fuzz: $(VENV)/.ready ## mutated inputs, and property tests with many examples, for an hour or make fuzz MINUTES=5
	@PYTHONPATH=tests:mock $(BIN)/python -m fuzz $(if $(INPUT),--input $(INPUT),--minutes $(MINUTES))

bench: $(VENV)/.ready ## the paper's scenarios, fairness, predictions, overhead, and hostile traffic (*.json)
	@$(BIN)/hivemind bench --json bench.json
	@for name in fairness prediction foresight.speed perf gateways attacks; do \
	  PYTHONPATH=mock $(BIN)/python -m benchmarks.$$name --json $$name.json || exit; \
	done
	@$(FORESIGHT) --seeds 0:24 --json foresight.json
	@$(FORESIGHT) --strange --seeds 0:10 --json foresight-strange.json
	@$(FORESIGHT).tuned --seeds 400:440 --json foresight-tuned.json

FORESIGHT = PYTHONPATH=mock $(BIN)/python -m benchmarks.foresight
SEEDS = 0:100
STRANGE_SEEDS = 0:40
TUNED_SEEDS = 400:460
foresight: $(VENV)/.ready ## foretell changed settings in SEEDS=0:100 worlds, strange ones, and ten on sockets, and tune others; writes the manual's tables
	@$(FORESIGHT) --seeds $(SEEDS) --json foresight.json
	@$(FORESIGHT) --strange --seeds $(STRANGE_SEEDS) --json foresight-strange.json
	@$(FORESIGHT) --sockets --seeds 0:10 --json foresight-sockets.json
	@$(FORESIGHT).figures docs/figures foresight.json foresight-strange.json foresight-sockets.json
	@$(FORESIGHT).tuned --seeds $(TUNED_SEEDS) --json foresight-tuned.json --docs docs/figures

AGAINST =
performance: $(VENV)/.ready ## measure the data plane beside other gateways, for the manual; AGAINST=TREE compares two versions
ifneq ($(AGAINST),)
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.perf.against $(AGAINST) --pairs $(PAIRS)
else
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.perf --data-plane --json perf.json
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.plot perf.json docs/figures
endif

prices: $(VENV)/.ready ## write the table of prices anew, as genai-prices has them
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.prices

ONLY =
mutants: $(VENV)/.ready ## make each kept fault and see that the quick tests catch it; minutes; ONLY=retry for some
	@$(BIN)/python tests/mutants/run.py $(ONLY)

KILLS = 50
SEED =
crash: $(VENV)/.ready ## kill proxies, control rooms and runners KILLS=50 times, and check what they promise (SEED=)
	@PYTHONPATH=mock:tests $(BIN)/python -m benchmarks.crash --kills $(KILLS) $(SEED:%=--seed %) --json crash.json

crash-figures: $(VENV)/.ready ## after make crash: write what it found into the manual
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.crash.figures crash.json docs/figures

fleet: MINUTES = 10
fleet: $(VENV)/.ready ## proxies that share a key through Redis, beside some that don't, and their faults (MINUTES= ONLY=)
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.fleet --minutes $(MINUTES) $(if $(ONLY),--only "$(ONLY)") --json fleet.json

fleet-figures: $(VENV)/.ready ## after make fleet: write what it found into the manual
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.fleet.figures fleet.json docs/figures

fleet-simulation: $(VENV)/.ready ## simulate fleets of up to 100 proxies; writes the manual's tables
	@PYTHONPATH=mock:tests $(BIN)/python -m benchmarks.fleet.simulated --json fleet-simulation.json
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.fleet.simulated_figures fleet-simulation.json docs/figures

RATE =
REQUESTS =
soak: $(VENV)/.ready ## an hour of load, faults and steering, in which nothing may be lost (MINUTES= RATE= REQUESTS= SEED=)
	@PYTHONPATH=mock $(BIN)/python -m benchmarks.soak --minutes $(MINUTES) $(RATE:%=--rate %) \
	  $(REQUESTS:%=--requests %) $(SEED:%=--seed %) --json soak.json

docs: $(VENV)/.ready ## build the manual into docs/_build/html
	$(DOCS)

screenshots: $(VENV)/.ready ## take the README's pictures anew (about two minutes; needs rsvg-convert)
	@$(BIN)/python screenshots/make.py

clean: ## remove .venv and every cache
	rm -rf $(VENV) dist build docs/_build docs/reference .coverage* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .fuzz
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Touched last, so that a set-up that was interrupted is done again.
$(VENV)/.ready: pyproject.toml constraints.txt
	@set -e; \
	for python in $(PYTHONS); do \
	  if "$$python" -c '$(SUITABLE)' >/dev/null 2>&1; then found=$$python; break; fi; \
	  if [ "$$python" = "$(PYTHON)" ]; then break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo "HiveMind needs Python 3.11 or later with its venv module (Debian: apt install python3-venv);" \
	    "name one with make PYTHON=/path/to/python" >&2; \
	  exit 1; \
	fi; \
	if ! $(BIN)/python -c '$(SUITABLE)' >/dev/null 2>&1; then \
	  echo "making $(VENV) with $$("$$found" --version)"; \
	  "$$found" -m venv --clear $(VENV); \
	fi; \
	echo "installing what HiveMind needs into $(VENV)"; \
	export PIP_DISABLE_PIP_VERSION_CHECK=1; \
	$(BIN)/python -m pip install -q -c constraints.txt pip; \
	$(BIN)/python -m pip install -q --no-compile -c constraints.txt --build-constraint constraints.txt \
	  -e '.[lab,fleet,web,mcp,otlp]' --group dev; \
	$(BYTECODE) $(BIN)/python -c '$(STARTED)'; \
	touch $@

.PHONY: help setup run check lint docs test test-all test-clients clients-table test-servers refusals fuzz mutants bench foresight performance crash crash-figures fleet fleet-figures fleet-simulation soak screenshots clean
