# make test is what CI runs: everything, on real servers, nothing left out.

SHELL := bash
GO ?= go
GOLANGCI_LINT ?= v2.15.0
GOVULNCHECK ?= v1.8.0
GOVULNDB ?= https://vuln.go.dev
FUZZ_INPUTS ?= 8000
SEEDS ?= 20000
FROM ?= 1
COUNT ?= 1
PAIRS ?= 10
CELLS_AT_ONCE ?= 2
# The race detector knows nothing of the memory of SQLite and of its C library and allocator, C that was translated to Go,
# and would take five times as long for that (test/program has the same). go-zookeeper 1.0.4 reads lastZxid in sendSetWatches while
# recvLoop writes it (docs/dependencies.md): the library is left out, and what calls it is not.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false -gcflags=modernc.org/memory=-race=false -gcflags=github.com/go-zookeeper/zk=-race=false
# Programs are built as they are shipped, without cgo. The race detector needs it; what its tests build goes without again:
# so everything but the tests themselves is compiled once.
export CGO_ENABLED = 0
RACED = CGO_ENABLED=1 LOCKSTEP_TEST_ALL=1 $(GO) test $(RACE) -exec 'env CGO_ENABLED=0'
# Many tests hold that something happens in time, and most write to a disk: one package for each processor. What needs no time
# fills the gaps (untimed). Those that take longest begin first.
AT_ONCE ?= $(shell getconf _NPROCESSORS_ONLN)
LONGEST = ./test/cluster ./store ./scheduler ./locks/sqllock ./cmd/scheduler ./test/chaos ./locks/zklock ./test/scenarios ./api ./test/sim ./test/mutants ./locks/redislock ./locks/quorumlock

# The packages with tests that start neither a server nor the program. Those of the simulation run by themselves, and the
# mistakes that test/mutants makes take long.
SERVERLESS = $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... | \
	grep -v '/test/servers\|/test/program' | cut -d ' ' -f 1 | grep -v '/test/sim$$\|/test/mutants$$')

.PHONY: build test quick check install unit untimed fuzz sim chaos chaos-outage chaos-wait chaos-matrix chaos-full chaos-selftest soak mutants lint vuln bench bench-smoke cover clean

build: ## build bin/scheduler
	$(GO) build -trimpath -o bin/scheduler ./cmd/scheduler

test: ## everything; on Debian as root it installs what is missing
	@$(MAKE) --no-print-directory -j2 check install
	@$(MAKE) --no-print-directory -j2 unit untimed
	@echo "make test: all passed, nothing left out"

quick: ## go vet, the tests that need no server, the layers, and 200 simulated clusters: for the inner loop
	$(GO) vet ./...
	$(GO) test $(SERVERLESS) ./test/layers
	@$(MAKE) --no-print-directory sim SEEDS=200

check: ## go vet, the types on other systems, and gofmt
	$(GO) vet -tags chaos ./...
	$(GO) vet -tags fuzz ./api # .ci/fuzz leaves files out
	cd test/manifests && $(GO) vet .
	cd test/bench && $(GO) vet . && cd rivals && $(GO) vet . # that they still build with the other libraries
	$(GO) run ./test/crosscheck -tags chaos darwin windows
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "the files above need gofmt -w" >&2; exit 1; }

install: ## the C compiler and the servers that the tests need
	.ci/install

unit: ## every test, with the race detector; check has vetted them
	.ci/failures env $(RACED) -vet=off -shuffle=on -timeout 20m -p $(AT_ONCE) $(LONGEST) ./...

# With the priority of idle work they may not get a processor for minutes: their limit is that of the whole.
untimed: ## the tests in which no time passes, or time that is simulated; with the priority of idle work, beside unit
	LOCKSTEP_TEST_ALL=1 nice -n 19 $(GO) test -timeout 1h ./test/sim # 1,000 seeds; with the race detector 200
	nice -n 19 $(GO) test -timeout 1h ./jobs -run '^TestTwelveZones$$' -args -every-minute # 2018–2030, minute by minute
	cd test/manifests && nice -n 19 $(GO) test -timeout 1h -shuffle=on .
	nice -n 19 $(MAKE) --no-print-directory fuzz

fuzz: ## all fuzz targets, FUZZ_INPUTS each
	.ci/fuzz $(FUZZ_INPUTS)

sim: ## SEEDS simulated clusters, the first of them FROM; or SEED alone, COUNT times
	@$(GO) -C test/sim test -timeout 0 -run '^TestSeeds$$' $(if $(SEED),-count $(COUNT) -args -seed '$(SEED)',-count 1 -args -seeds '$(SEEDS)' -from '$(FROM)')

chaos: ## the database down for 90 s, all replicas for ten minutes, then break everything in every cell, an hour and a half; or CELL=mariadb+redis NEMESIS=kill-parent,cut-store/redis-flushall SEED=1
	@status=0; $(if $(CELL)$(NEMESIS),,$(MAKE) --no-print-directory --keep-going -j2 chaos-outage chaos-wait || status=$$?;) \
		$(MAKE) --no-print-directory chaos-matrix || status=$$?; exit $$status

chaos-outage:
	LOCKSTEP_TEST_ALL=1 $(GO) test -run '^(TestStoreless|TestTenMinutesAway)$$' -count=1 -timeout 30m ./test/cluster -store-outage 90s -away 10m

chaos-wait:
	CHAOS_DIR=$${CHAOS_DIR:+$$CHAOS_DIR/wait} LOCKSTEP_TEST_ALL=1 $(GO) test -tags chaos -run '^TestMatrix$$' -count=1 ./test/chaos \
		-cell mariadb+redis -nemesis cut-lock,mute-lock,redis-frozen -when-down wait -seed $(or $(SEED),0) $(CHAOS_FLAGS)

chaos-matrix:
	LOCKSTEP_TEST_ALL=1 $(GO) test -tags chaos -run '^TestMatrix$$' -count=1 -timeout 48h -parallel $(CELLS_AT_ONCE) -v ./test/chaos \
		-cell '$(CELL)' -nemesis '$(NEMESIS)' -seed $(or $(SEED),0) -pairs $(PAIRS) $(CHAOS_FLAGS)

chaos-full: ## make chaos with all pairs: a day
	@$(MAKE) --no-print-directory chaos PAIRS=-1

soak: ## half an hour with a fault every 30 s, in CELL: does anything grow?
	LOCKSTEP_TEST_ALL=1 $(GO) test -tags chaos -run '^TestSoak$$' -count=1 -timeout 12h -v ./test/chaos \
		-cell '$(or $(CELL),mariadb+redis)' -soak $(or $(SOAK),30m) -seed $(or $(SEED),0) $(CHAOS_FLAGS)

chaos-selftest: ## chaos runs must catch each of the seeded bugs, half an hour; or BUG=blind-retry
	LOCKSTEP_TEST_ALL=1 $(GO) test -tags chaos -run '^TestSelf$$' -count=1 -timeout 2h -v ./test/chaos -bug '$(BUG)' $(CHAOS_FLAGS)

mutants: ## mutation tests of each package, hours; PACKAGES=store MUTANTS='sweep' TESTS='TestSQLite$$' for a part of it
	LOCKSTEP_TEST_ALL=1 $(GO) run ./test/mutants/cmd/mutants -mutants '$(MUTANTS)' -tests '$(TESTS)' $(MUTANTS_FLAGS) $(PACKAGES)

lint: ## the rules of .golangci.yml
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; \
	else $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT) run ./...; fi

vuln: ## known vulnerabilities of dependencies; needs the network, so not part of make test
	@$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) -db $(GOVULNDB) ./... || { echo "make vuln: findings stand above; if there are none, the database (vuln.go.dev, or GOVULNDB=URL) was not reached, and nothing was judged" >&2; exit 1; }

bench: ## benchmarks with the bare servers, other libraries and task queues, more than half an hour; see docs/performance.md
	cd test/bench && LOCKSTEP_TEST_ALL=1 $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 2h .

bench-smoke: ## that the benchmarks run, with small sizes, in a minute or two
	cd test/bench && $(GO) vet . && LOCKSTEP_TEST_ALL=1 $(GO) test -short -bench . -benchtime 1x .

cover: ## coverage of the product by all tests, as cover.html
	LOCKSTEP_TEST_ALL=1 $(GO) test -coverpkg ./... -coverprofile cover.out ./...
	$(GO) tool cover -html cover.out -o cover.html
	$(GO) tool cover -func cover.out | tail -1

clean:
	rm -rf bin cover.out cover.html
