# Run `make help` for a list of the targets. All of them run on a fresh Debian with Go, make,
# gcc and git. scripts/setup installs the servers that tests need as Debian packages. The
# tools are pinned in tools/go.mod, a separate module, so that their dependencies are not
# dependencies of Headgate. They are built into dist/.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

FUZZTIME ?= 30s
STEPS    ?= 100000000
HOLD_STEPS ?= 1000000
RUNS     ?= 50
MUTATIONS ?= 1000000
SEED     ?= $(shell date +%s)
ROUNDS   ?= 5
DOCKER   ?= docker
TIME     ?= 500ms
BASE     ?= /
TARGETS  ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64

TOOLS    := $(CURDIR)/dist/tools/$(shell go env GOVERSION)
PARALLEL ?= $(shell echo $$((2 * $$(nproc))))
# The time after which a package of the long tests fails, which is enough for a busy machine.
TIMEOUT  := 25m
# How the program is built for users. The tag leaves out gRPC's tracing pages, which Headgate
# does not use: their templates prevent the linker from removing unused code.
BUILD    := CGO_ENABLED=0 go build -trimpath -tags grpcnotrace
EACH     := $(CURDIR)/scripts/each-module
# All packages of the released modules, those with the longest tests first.
SHIPPED  := ./redisstore ./algo ./memstore ./memcachedstore ./cmd/headgate/... ./... ./redisstore/goredis ./grpclimit ./otelheadgate
# Tests of faults of servers, of killed processes, and of the model of leases with mistakes.
FAULTS   := ^TestHistories|^TestCrowd|^TestPlantedMistakes|^TestLeases|^TestRedisUnavailable|^TestSilentConnections|^TestMemcachedServerUnavailable|^TestOneNodeUnavailable
# Tests of the demo page and of the dashboard in a browser.
PAGES    := ^TestAxe|^TestFirstScreen|^TestFonts|^TestPageInChromium|^TestDashboardInChromium
# Tests of the program with other programs: proxies, Python, the suite of envoyproxy/ratelimit.
PROGRAMS := ^TestProx|^TestPython|^TestRatelimit
# Tests with one goroutine, of many keys, long logs or rare permissions. No data race is possible.
SEQUENTIAL := ^TestFlood|^TestMemoryStays|^TestExpiredKeysDo|^TestTableGrowthKeeps|^TestFullTable|^TestRealLog|^TestTemporaryFile|^TestReport|^TestOverflow|^TestMaxHolds|^TestMaxLog|^TestFolderReplacesFile|^TestRestoreRejects|^TestLogWork|^TestLogMatchesAlgo|^TestConformanceLogChunks|^TestThousandsOf|^TestTooManyKeysInOne|^TestHoldsExpireTogether|^TestEdges|^TestMinimalACL|^TestRandomChains|^TestAppendEscaped|^TestKeysAreUnique|^TestVectorsLua|^TestCountedMemory
# All packages except those with tests of arithmetic, of files and of pages.
CONCURRENT = $$(go list -f '{{.Dir}}' $(SHIPPED) | grep -Ev '/(algo|leasemodel|calendar|docs|docsite|language|testrules|dependencies|modules)$$' | sed 's,^$(CURDIR),.,')

##@ Everyday

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: ## Run the service on this machine
	go run ./cmd/headgate serve

.PHONY: quickstart
quickstart: ## Run the service with Redis and nginx until Ctrl-C, and print commands to try
	$(BUILD) -o dist/headgate ./cmd/headgate
	@HEADGATE=$(CURDIR)/dist/headgate quickstart/run

.PHONY: demo
demo: ## Run the demo page of the algorithms
	go run ./cmd/headgate demo

.PHONY: build
build: ## Build ./headgate
	$(BUILD) -o headgate ./cmd/headgate

.PHONY: image
image: ## Build the container image headgate with DOCKER (docker or podman)
	$(DOCKER) build -f packaging/Dockerfile -t headgate \
		--build-arg VERSION="$$(git describe --tags --always --dirty)" --build-arg REVISION="$$(git rev-parse HEAD)" .

.PHONY: setup
setup: ## Install missing Debian packages; targets that need them run it automatically
	@scripts/setup

.PHONY: setup-long
setup-long:
	@scripts/setup --long

.PHONY: clean
clean: ## Remove build output
	rm -rf dist headgate

.PHONY: pictures
pictures: ## Regenerate the pictures of the algorithms in docs/pictures
	cd bench && GOWORK=off go run ./cmd/pictures ../docs/pictures

.PHONY: screenshots
screenshots: setup-long ## Regenerate the screenshots in docs/pictures in a browser
	go test ./cmd/headgate/internal/demo ./cmd/headgate/internal/dashboard -run TestPictures -count 1 -pictures $(CURDIR)/docs/pictures

.PHONY: site
site: setup-long ## Build the documentation site for the path BASE (/) in dist/site
	scripts/site dist/site $(BASE)

##@ Tests

# Every kind of test runs here, but with fewer steps, keys and rounds: each test defines its
# short form for testing.Short(). Tests mostly wait for servers, so more packages than cores
# run in parallel. One command tests all released modules, so that no module waits for the
# last package of another. vet is a part of golangci-lint.
.PHONY: test
test: setup ## Run the tests of all modules with fewer steps; takes some minutes
	go test -short -vet=off -p $(PARALLEL) $(SHIPPED)
	cd examples && go test -vet=off ./...

.PHONY: test-long
test-long: test-full lint test-race test-lowest test-bench test-release ## Run all other tests: all steps, race detector, lowest versions, bench, lint

# test-full runs the tests that `make test` has shortened or left out.
# Tests that count allocations, or run millions of steps, run only without the race detector.
# All others also run in their short form with it, except algo, which contains arithmetic and no
# goroutines, other tests without goroutines, and tests that mostly wait for other programs.
.PHONY: test-full
test-full: setup-long
	go test -vet=off -run "$$(scripts/shortened-tests)" -timeout $(TIMEOUT) -p $(PARALLEL) ./redisstore ./algo $$(scripts/shortened-tests --packages)

# The race detector, and at the same time two additional algorithms. The latter prove that
# packages read the table of algorithms and do not compare names.
.PHONY: test-race
test-race: setup
	scripts/test-made-up-algorithm -race -short -vet=off -skip '$(PROGRAMS)|$(PAGES)|$(SEQUENTIAL)' -timeout $(TIMEOUT) -p $(PARALLEL) $(CONCURRENT)
	scripts/test-made-up-algorithm -short -vet=off ./algo

# Test the importable modules with the versions of their own go.mod files. All other tests
# run with the highest version that any module requires. Faults of servers, and tests of long
# logs and many keys, do not depend on the versions of libraries.
.PHONY: test-lowest
test-lowest: setup
	$(EACH) --without cmd/headgate --lowest $(CURDIR)/scripts/test-importers -short -vet=off -skip '$(FAULTS)|$(SEQUENTIAL)' -p $(PARALLEL)

.PHONY: test-bench
test-bench: setup
	cd bench && GOWORK=off go test ./... && GOWORK=off go test -run '^$$' -bench . -benchtime 1x . > /dev/null

# Builds a release for linux/amd64 and uses its artefacts: archive, packages, image and chart.
.PHONY: test-release
test-release: setup-long
	cd tools/release && go test ./...

# The configurations of FULL=1 take minutes and more memory.
.PHONY: model
model: setup ## Check the model of leases with spin: all states, and planted mistakes (FULL=1: more)
	go test -vet=off -timeout 1h ./internal/leasemodel -count 1 -v $(if $(FULL),-full) | grep -v '^=== '

# All zones take a quarter of an hour, so test-long compares some of them.
.PHONY: test-zones
test-zones: setup ## Compare the calendars of all time zones with Python and JavaScript
	go test -vet=off -timeout 2h ./internal/calendar -run TestEdges -all-zones

# Debian has no package of Traefik. Its modules are 1.3 GB, and building it takes ten minutes
# of CPU time, so this is not a part of test-long.
.PHONY: test-traefik
test-traefik: setup $(TOOLS)/traefik ## Test the files of docs/guides/proxies with Traefik, built from source
	go test -short -vet=off ./cmd/headgate ./cmd/headgate/internal/forwardauth -run Prox -traefik $(TOOLS)/traefik

$(TOOLS)/traefik: tools/traefik/go.mod tools/traefik/go.sum
	@echo 'building Traefik (once)'
	@mkdir -p $(TOOLS)
	cd tools/traefik && GOWORK=off go build -o $@ github.com/traefik/traefik/v3/cmd/traefik

.PHONY: fuzz
fuzz: setup ## Run every fuzz target for FUZZTIME (30s)
	FUZZTIME=$(FUZZTIME) scripts/fuzz

# The flag -p 1 keeps one interface from slowing down another's well-behaved client.
.PHONY: soak-mutations
soak-mutations: setup ## MUTATIONS (1,000,000) mutated requests for each interface
	go test -p 1 ./httplimit ./grpclimit ./cmd/headgate/internal/rlsapi ./cmd/headgate/internal/forwardauth \
		./cmd/headgate/internal/httpapi ./cmd/headgate/internal/respapi -run Mutated -count 1 -timeout 0 -v -mutations $(MUTATIONS)

# Each run uses another seed. A failure prints its seed.
.PHONY: soak
soak: ## Long random tests: STEPS of Go against Lua (100 million), RUNS of stores (50)
	go test ./algo -run 'TestGoMatchesLua|TestLuaHoldsEqualGo' -count 1 -timeout 0 -v -seed $(SEED) -steps $(STEPS)
	go test ./storetest ./memstore -count $(RUNS) -timeout 0

.PHONY: soak-stores
soak-stores: setup ## Long store tests: decisions, histories with faults, restarts, outages (on an idle machine)
	go test ./redisstore -run 'TestConformanceModes/default|TestConformanceCluster' -count 1 -timeout 0 -v -decisions 1000000
	go test ./memcachedstore -run 'TestStore$$' -count 1 -timeout 0 -v -decisions 1000000
	go test ./memstore -run 'TestStore$$/(holds|slots)_equal' -count 1 -timeout 0 -v -hold-steps $(HOLD_STEPS)
	go test ./redisstore -run 'TestConformanceModes/default/(holds|slots)_equal|TestConformanceCluster/(holds|slots)_equal' -count 1 -timeout 0 -v -hold-steps $(HOLD_STEPS)
	go test ./memcachedstore -run 'TestStore$$/(holds|slots)_equal' -count 1 -timeout 0 -v -hold-steps $(HOLD_STEPS)
	go test ./redisstore -run 'Histor|CrowdServerRestarts' -count 1 -timeout 0 -v -histories 500
	go test ./memcachedstore -run 'Histor' -count 1 -timeout 0 -v -histories 500
	go test ./redisstore -run LogMatchesAlgo -count 1 -timeout 0 -v -log-steps 3000000 -log-seed $(SEED)
	go test ./redisstore -run LogWorkIsBounded -count 1 -timeout 0 -v -log-entries 1000000
	go test ./redisstore -run ScriptFlush -count 1 -timeout 0 -v -flush 30s
	go test ./fallback -run RedisUnavailable -count 1 -timeout 0 -v -outage 30s
	go test ./fallback -run 'OneNodeUnavailable|SilentConnections' -count 1 -timeout 0 -v -fault-runs 20 -fault-time 14s -fault-budget 50ms

##@ Analysis

.PHONY: lint
lint: format tidy golangci-lint spelling ## Run formatting checks and static analysis

.PHONY: format
format: $(TOOLS)/.built
	@unformatted=$$($(TOOLS)/gofumpt -l .); \
	if [[ -n "$$unformatted" ]]; then \
		printf 'not formatted; gofumpt -w does it:\n%s\n' "$$unformatted"; exit 1; \
	fi

.PHONY: tidy
tidy:
	scripts/tidy

# golangci-lint runs vet and staticcheck too, with the other linters of .golangci.yml.
.PHONY: golangci-lint
golangci-lint: $(TOOLS)/.built
	$(EACH) $(TOOLS)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...

# golangci-lint checks the spelling of comments; this checks that of pages.
.PHONY: spelling
spelling: $(TOOLS)/.built
	$(TOOLS)/misspell -error $$(git ls-files '*.md')

.PHONY: vuln
vuln: $(TOOLS)/.built ## Check dependencies for known vulnerabilities (queries vuln.go.dev)
	$(EACH) $(CURDIR)/scripts/vuln $(TOOLS)/govulncheck ./...

$(TOOLS)/.built: tools/go.mod tools/go.sum
	@echo 'building the tools (once)'
	@mkdir -p $(TOOLS)
	cd tools && GOWORK=off go build -o $(TOOLS)/ tool
	@touch $@

##@ Releases

.PHONY: release
release: ## Build the artefacts of this commit for TARGETS in dist/release
	cd tools/release && go run . -out $(CURDIR)/dist/release -targets $(TARGETS)

.PHONY: release-twice
release-twice: ## Build them twice from clones with empty build caches, and compare
	scripts/release-twice -targets $(TARGETS)

##@ Measurements

.PHONY: bench
bench: setup ## Speed compared with other limiters; raw rounds in bench/results
	cd bench && GOWORK=off go run ./cmd/table -rounds $(ROUNDS) -time $(TIME) -results results

.PHONY: bench-memory
bench-memory: ## Bytes per key compared with other limiters, at 1 and 10 million keys
	cd bench && GOWORK=off go run ./cmd/memory -results results

.PHONY: flood
flood: ## 100 million random keys against a store bounded to 1 million
	cd bench && GOWORK=off go run ./cmd/flood -results results

.PHONY: connections
connections: ## Memory of headgate serve under attacks with connections; about 6 minutes
	go build -o $(TOOLS)/headgate ./cmd/headgate
	cd bench && GOWORK=off go run ./cmd/connections -headgate $(TOOLS)/headgate

.PHONY: bench-stores
bench-stores: ## Limiters over Redis and memcached; starts both servers
	cd bench && GOWORK=off go run ./cmd/stores -results results

.PHONY: bench-leases
bench-leases: ## Eight processes on one key of Redis: leases, and counters that synchronize later
	cd bench && GOWORK=off go run ./cmd/leases -results results

.PHONY: bench-logs
bench-logs: ## Operations on sliding logs in Redis of 10 to 1,000,000 entries
	cd bench && GOWORK=off go run ./cmd/logs -results results

.PHONY: bench-resp
bench-resp: setup ## CL.THROTTLE on headgate serve against INCR on redis-server
	$(BUILD) -o dist/headgate ./cmd/headgate
	cd bench && GOWORK=off go run ./cmd/resp -results results

.PHONY: bench-middleware
bench-middleware: ## Overhead of HTTP rate limit middlewares
	cd bench && GOWORK=off go run ./cmd/middleware -results results

.PHONY: bench-proxies
bench-proxies: setup ## Requests through nginx with Headgate and with its own limit_req
	$(BUILD) -o dist/headgate ./cmd/headgate
	cd bench && GOWORK=off go run ./cmd/proxies -results results
