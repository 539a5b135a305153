# What people type. `make help` lists the targets; .ci/run calls them in order.
# Go and make are enough for build, demo and test; the others install what they can.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# No C compiler is needed, and the binary runs wherever its kernel does.
export CGO_ENABLED ?= 0
# The version comes from git where there is one.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BUILD := -ldflags '-s -w -X main.buildVersion=$(VERSION)'
# One set of flags for build, test and lint, so that what one has compiled serves the others. Debug information is what the linker
# drops anyway (-s -w). The EC2 SDK, a package of 20 MB of source that waits for the network, takes half as long to compile
# unoptimised; releases optimise it. Go's own stamp of the version is off, because it makes builds fail in clones that belong to
# somebody else.
FAST := -trimpath -buildvcs=false -gcflags=all=-dwarf=false '-gcflags=github.com/aws/aws-sdk-go-v2/service/ec2=-dwarf=false -N -l'
export GOFLAGS := $(strip $(GOFLAGS) $(FAST))
TOOL := $(GO) tool -modfile=tools/go.mod
# Things that are downloaded or built for checks; it ignores itself.
CACHE := .cache
FUZZTIME ?= 20s
# Packages with goroutines: what the race detector is for.
RACE ?= ./cmd/... ./doctor/... ./elasticity/... ./fakecloud/... ./internal/... ./jobmanager/... ./jobrun/... ./planner/... ./program/... ./providers/... ./provisioner/... \
  ./ps/... ./tiers/... ./watch/...

.PHONY: help
help: ## list the targets
	@echo "Start with: make demo"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build bin/tierml
	@echo "building bin/tierml $(VERSION); the first time takes minutes and 1 GB of Go's build cache, a third of it for the EC2 SDK"
	@mkdir -p bin
	@$(GO) build $(BUILD) -o bin/tierml ./cmd/tierml
	@echo "built bin/tierml"

.PHONY: demo
demo: build ## build, then train a model on a replayed spot market (70 seconds; the first build takes minutes)
	bin/tierml run -y examples/demo.yaml

.PHONY: demo-render
demo-render: build ## 20 machine hours of pictures on 16 spot machines, played in two minutes (needs python3)
	@command -v python3 >/dev/null || { echo "the scenes are drawn by python3, which is not installed" >&2; exit 1; }
	bin/tierml run -y examples/programs/render.yaml

.PHONY: test
test: ## run all tests that need Go alone
	@echo "testing; the first time also compiles the EC2 SDK, which takes some minutes"
	$(GO) test -timeout 20m ./...

.PHONY: bench
BENCH ?= -page test/bench/results.md
bench: $(CACHE) ## measure beside other tools and C, and write test/bench/results.md (a quarter of an hour, a quiet machine; DATA=folder BENCH=flags)
	$(GO) build $(BUILD) -o $(CACHE)/bench ./test/bench
	a9a="$${A9A:-}"; gz=$(DATA)/ml/linear/a9a.gz; \
	if [ -z "$$a9a" ] && [ -f "$$gz" ]; then a9a=$(abspath $(CACHE))/a9a; gunzip -c "$$gz" >"$$a9a"; fi; \
	A9A="$$a9a" MNIST="$${MNIST:-$(DATA)/ml/mlr/mnist-t10k-images-idx3-ubyte.gz}" $(CACHE)/bench $(BENCH)

.PHONY: growth
GROWTH ?= -page test/bench/results.md -pictures docs/images
growth: $(CACHE) ## how bytes, clocks, plans and dry runs grow, beside build 1038a36, in test/bench/results.md (a quarter of an hour, a quiet machine; GROWTH=flags)
	$(GO) build $(BUILD) -o $(CACHE)/bench ./test/bench
	GO="$(GO)" $(CACHE)/bench growth $(GROWTH)

.PHONY: quality
quality: ## held-out quality of every application by default, and the same loss for any workers and consistency (minutes)
	TIERML_ALL_APPLICATIONS=1 $(GO) test -count=1 -v -timeout 60m -run 'Quality|Accuracy|Objective|Perplexity|LossDependsOnNeither|StaleDefaults|OldestReads' \
	  ./apps/... ./tiers/node | grep -E '_test.go:[0-9]+: |^ *--- |^(ok|FAIL)'

.PHONY: defaults
SEEDS_OF_DEFAULTS ?= 5
defaults: build $(CACHE) ## jobs of `tierml init`, untouched, beside scikit-learn on twelve data sets (installs it in .cache; DATA=folder, a quarter of an hour)
	@[ -x $(CACHE)/defaults/bin/pip ] || python3 -m venv $(CACHE)/defaults
	@$(CACHE)/defaults/bin/pip install --quiet --disable-pip-version-check scikit-learn pandas safetensors
	$(CACHE)/defaults/bin/python test/defaults/defaults.py $(CURDIR)/bin/tierml $(abspath $(DATA))/ml $(SEEDS_OF_DEFAULTS)

.PHONY: cells
cells: ## cost-per-work beside tierml in every market of recordings: make cells CELLS="TRACE=CATALOG ..."
	TIERML_CELLS="$(CELLS)" $(GO) test ./sim/sweep -run CostPerWorkInEveryCell -v -count=1

.PHONY: aggregation
aggregation: ## servers that shared aggregation saves on Philly's jobs (DATA=DIR, minutes)
	TIERML_AGGREGATION_DATA="$(abspath $(DATA))/jobs" $(GO) test ./sched/aggregation -run OnPhilly -v -count=1 -timeout 0

.PHONY: aggregation-bound
aggregation-bound: $(CACHE) ## how much LossLimit and whole servers let any packing of Philly's clusters save, proven by HiGHS (installs scipy in .cache; DATA=DIR, minutes)
	@[ -x $(CACHE)/scipy/bin/pip ] || python3 -m venv $(CACHE)/scipy
	@$(CACHE)/scipy/bin/pip install --quiet --disable-pip-version-check scipy
	TIERML_AGGREGATION_DATA="$(abspath $(DATA))/jobs" TIERML_AGGREGATION_INSTANTS="$(CURDIR)/$(CACHE)/instants.jsonl" TIERML_AGGREGATION_SEARCH="$(SEARCH)" \
	  $(GO) test ./sched/aggregation -run InstantsOfPhilly -v -count=1 -timeout 0
	$(CACHE)/scipy/bin/python sched/aggregation/testdata/instants.py $(CACHE)/instants.jsonl

.PHONY: evictions
# Markets as ZONE,ZONE:TYPE,TYPE of the recording.
MARKETS ?= us-east-1a:c4.xlarge,c4.2xlarge us-east-1c:c5.xlarge,c5.2xlarge us-east-1d:m5.xlarge,m5.4xlarge us-east-1a:r5.xlarge,r5.2xlarge \
  us-east-1c:m4.xlarge,m4.4xlarge us-east-1a,us-east-1c,us-east-1d:c5.xlarge,c5.2xlarge,c5d.2xlarge,m5.xlarge
EVICTIONS ?=
evictions: STARTS ?= 100
evictions: $(CACHE) ## costs by policy as machines are evicted more often, on recordings without bids (DATA=DIR TRACE= CATALOG= MARKETS= STARTS= EVICTIONS=flags)
	@$(GO) build $(BUILD) -o $(CACHE)/tierml ./cmd/tierml
	@$(GO) run ./test/evictions -tierml $(CACHE)/tierml -trace "$(TRACE)" -catalog "$(CATALOG)" -availability "$$(echo $(AVAILABILITY) | tr ' ' ',')" \
	  -markets "$(MARKETS)" -starts $(STARTS) -seed $(SEED) $(EVICTIONS)

.PHONY: auto
auto: STARTS ?= 100
auto: HOURS = 8 20
auto: ## policy: auto beside the best fixed policy in hindsight, checkpoint and the clairvoyant, on DATA's recordings (STARTS=n, HOURS=, ONLY=part of a name, KEPT=file to continue)
	@TIERML_AUTO_STARTS=$(STARTS) TIERML_AUTO_HOURS="$(HOURS)" TIERML_AUTO_DATA="$(abspath $(DATA))" TIERML_AUTO_ONLY="$(ONLY)" TIERML_AUTO_KEPT="$(abspath $(KEPT))" \
	  $(GO) test ./sim/sweep -run AutoOnRecordings -v -count=1 -timeout 0

.PHONY: auto-speed
auto-speed: ## how long a decision of policy: auto takes, cold and warm, on 20 pools of one of DATA's recordings
	@TIERML_AUTO_SPEED="$(abspath $(DATA))" $(GO) test ./sim/sweep -run AutoSpeed -v -count=1

.PHONY: bound
bound: STARTS ?= 3
bound: ## no policy beats the oracle: all policies and rule books in twelve markets of each of DATA's recordings, start by start (STARTS=n)
	TIERML_BOUND=$(STARTS) TIERML_BOUND_DATA="$(abspath $(DATA))" $(GO) test ./sim/sweep -run BeatsTheOracleOnRecordings -v -count=1 -timeout 0

.PHONY: guarantees
guarantees: STARTS ?= 50
guarantees: ## every start finishes, none is late, none costs over 1.5 times on demand, nobody pays for machines that wait: on drawn markets and recordings (STARTS= SEED= GUARANTEED=)
	TIERML_GUARANTEES=$(STARTS) TIERML_GUARANTEES_SEED=$(SEED) TIERML_GUARANTEES_DATA="$(abspath $(DATA))" TIERML_GUARANTEES_POLICIES="$(GUARANTEED)" \
	  $(GO) test ./sim/sweep -run Guarantees -v -count=1 -timeout 0

.PHONY: capacity
DATA ?= ../shared/data
TRACE ?= $(DATA)/spot/aws-us-east-1-2021-03-to-04.csv.gz
CATALOG ?= $(DATA)/catalog/aws-ondemand-linux-2022-06-22.csv.gz
AVAILABILITY ?= $(wildcard $(DATA)/availability/skypilot/availability/*/*/*.json.gz)
TYPES ?= c5.xlarge,c5.2xlarge,c5d.2xlarge,m5.xlarge
LAYOUTS ?= 20
capacity: STARTS ?= 6
SEED ?= 1
capacity: ## capacity over all pools beside single pools and zones, on recordings (DATA=DIR TYPES= LAYOUTS= STARTS= SEED=)
	@TIERML_CAPACITY_TRACE="$(abspath $(TRACE))" TIERML_CAPACITY_CATALOG="$(abspath $(CATALOG))" \
	  TIERML_CAPACITY_AVAILABILITY="$(abspath $(AVAILABILITY))" TIERML_CAPACITY_TYPES="$(TYPES)" TIERML_CAPACITY_LAYOUTS=$(LAYOUTS) \
	  TIERML_CAPACITY_STARTS=$(STARTS) TIERML_CAPACITY_SEED=$(SEED) $(GO) test ./sim/sweep -run CapacityOnRecordings -v -count=1

.PHONY: speed
speed: TRACE = $(DATA)/spot/aws-us-east-1-2016-02-to-04.csv.gz
speed: CATALOG = $(DATA)/catalog/aws-ondemand-linux-2016-02-27.csv.gz
speed: TYPES = m4.4xlarge,m4.10xlarge
speed: STARTS ?= every
ZONE ?= us-east-1b
HOURS ?= 8
POLICIES ?= on-demand,checkpoint,tierml
speed: ## how long a dry run of one pair of types in one zone takes (TRACE= CATALOG= TYPES= ZONE= HOURS= STARTS= POLICIES=)
	@TIERML_SPEED_TRACE="$(abspath $(TRACE))" TIERML_SPEED_CATALOG="$(abspath $(CATALOG))" TIERML_SPEED_TYPES="$(TYPES)" \
	  TIERML_SPEED_ZONE="$(ZONE)" TIERML_SPEED_HOURS=$(HOURS) TIERML_SPEED_STARTS=$(STARTS) TIERML_SPEED_POLICIES="$(POLICIES)" \
	  $(GO) test ./sim/sweep -run SpeedOnARecording -v -count=1 -timeout 0

.PHONY: race
race: ## the tests of packages with goroutines, under the race detector (needs a C compiler)
	@command -v $${CC:-gcc} >/dev/null || { echo "the race detector needs a C compiler; install gcc (Debian: apt-get install gcc libc6-dev)"; exit 1; }
	CGO_ENABLED=1 $(GO) test -race -timeout 20m $(RACE)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, errorlint
	@files=$$(gofmt -l $$(find . -name '*.go' -not -path './$(CACHE)/*')); \
	  if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) go-errorlint ./...

.PHONY: check
check: SEEDS = 8000
check: FOR = 1m
check: lint sessions test explore race test-awscli test-moto test-stores exam-kube test-programs test-terraform test-metrics demo test-browser ## everything that .ci/run checks

.PHONY: python
python: # what the Python package's tests need beside Go (installs Debian's if it can)
	@.ci/install python3:numpy python3 python3-numpy

.PHONY: sessions
sessions: python # what the pages' shell examples need beside Go, for TestSessions (installs Debian's if it can)
	@.ci/install /usr/bin/aws awscli
	@.ci/install curl curl
	@.ci/install jq jq
	@.ci/install python3:boto3 python3 python3-boto3

.PHONY: test-docs
test-docs: sessions ## what the pages show: each shell block typed into bash against the fake clouds, each job file planned
	CI=true $(GO) test -count=1 -timeout 10m -run 'Sessions|Pages|ThePage' ./cmd/tierml ./internal/docstest

.PHONY: test-awscli
test-awscli: ## the fake cloud against the AWS command line (installs Debian's awscli if it can)
	@.ci/install /usr/bin/aws awscli
	.ci/test-without-skips -timeout 10m -run AWSCommandLine ./fakecloud

.PHONY: test-moto
test-moto: ## the EC2 adapter against moto, an EC2 that nobody here wrote (installs it in .cache)
	@.ci/with-moto $(CACHE) .ci/test-without-skips -timeout 10m -run Moto ./providers/ec2/api

.PHONY: exam-moto
EXAM ?=
exam-moto: ## the fake cloud sits moto's own EC2 tests (installs moto and its source in .cache; EXAM=pytest flags)
	@GO="$(GO)" .ci/moto-exam $(CACHE) $(EXAM)

.PHONY: exam-skypilot
exam-skypilot: ## SkyPilot's AWS provisioner launches, stops, resumes and ends clusters in the fake cloud (installs SkyPilot in .cache, 700 MB)
	@GO="$(GO)" .ci/provisioner-exam $(CACHE) skypilot 'skypilot[aws]==0.14.1'

.PHONY: exam-dstack
exam-dstack: ## dstack's AWS backend launches and ends instances in the fake cloud (installs dstack in .cache, 500 MB)
	@GO="$(GO)" .ci/provisioner-exam $(CACHE) dstack 'dstack[aws,server]==0.22.5'

.PHONY: test-programs
test-programs: python $(CACHE) ## docs/applications.md's Python, the Python package with torch, examples/programs (installs Debian's python3-torch, others in .cache)
	@.ci/install python3:torch python3-torch
	@[ -x $(CACHE)/programs/bin/pip ] || python3 -m venv $(CACHE)/programs
	@$(CACHE)/programs/bin/pip install --quiet --disable-pip-version-check xgboost-cpu scikit-learn safetensors
	PYTHON="$(CURDIR)/$(CACHE)/programs/bin/python" .ci/test-without-skips -timeout 10m -run PythonOnThePage ./apps/all
	TIERML_TORCH=1 .ci/test-without-skips -timeout 10m ./python
	PATH="$(CURDIR)/$(CACHE)/programs/bin:$$PATH" TIERML_PROGRAMS=1 .ci/test-without-skips -timeout 20m -run ProgramExamples ./cmd/tierml

.PHONY: test-containers
test-containers: ## programs with an image in real containers (installs Debian's podman if it can)
	@.ci/install podman podman runc
	TIERML_CONTAINERS=1 .ci/test-without-skips -timeout 10m -run Podman ./program

.PHONY: program-bills
program-bills: ## the predictions of plan and dry run against the bills of programs that are evicted, after one calibration (five minutes)
	TIERML_PROGRAM_BILLS=1 .ci/test-without-skips -timeout 20m -run ProgramBills ./cmd/tierml

.PHONY: storm-programs
STORM ?= 10m
storm-programs: test-programs ## a machine of each of examples/programs goes every 20 to 40 s for STORM=10m (an hour in all)
	PATH="$(CURDIR)/$(CACHE)/programs/bin:$$PATH" TIERML_PROGRAMS_STORM=$(STORM) .ci/test-without-skips -timeout 3h -run ProgramStorm ./cmd/tierml

.PHONY: mirror-cost
mirror-cost: ## how long 500 MB of state delay a program's start, and what mirroring 1 GB every minute costs it (three minutes, a quiet machine)
	TIERML_MIRROR_COST=1 $(GO) test ./program -run 'RestoreCost|MirrorCost' -v -count=1 -timeout 15m

.PHONY: test-stores
test-stores: ## program, splits and checkpoints in object stores that nobody here wrote (builds versitygw in .cache)
	@GO="$(GO)" .ci/with-versitygw $(CACHE) .ci/test-without-skips -timeout 10m -skip SaveCost ./test/stores

.PHONY: save-cost
SAVE_GB ?= 0.1 2 5
save-cost: ## how long one machine takes to save models of SAVE_GB gigabytes into a real store, and the line through the times (builds versitygw in .cache)
	@GO="$(GO)" TIERML_SAVE_GB="$(SAVE_GB)" .ci/with-versitygw $(CACHE) $(GO) test ./test/stores -run SaveCost -v -count=1 -timeout 0

.PHONY: image
# The file is where Debian has it.
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
PLATFORMS ?= linux/amd64 linux/arm64
image: $(CACHE) ## a container image with cloud: kubernetes, from scratch and without Docker: an OCI layout in dist/image (PLATFORMS=)
	@for p in $(PLATFORMS); do echo "building for $$p"; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -tags kube $(BUILD) -o "$(CACHE)/image/$$p" ./cmd/tierml; done
	@$(GO) run ./cmd/image "$(CURDIR)/dist/image" "$(CERTIFICATES)" $(foreach p,$(PLATFORMS),$(p)=$(CURDIR)/$(CACHE)/image/$(p))

.PHONY: exam-kube
exam-kube: ## cloud: kubernetes (-tags kube): vet, its tests, and the exam on client-go's fake API server
	$(GO) vet -tags kube ./providers/kube/... ./fakecloud/kubelet ./providers/all ./test/kube ./cmd/tierml
	$(GO) test -tags kube -timeout 10m ./providers/kube/...
	$(GO) test -tags kube -run Agree ./jobrun

.PHONY: manifests
# Helm's own place is .ci/with-kube's, too.
HELM := $(CACHE)/kube/helm
CHART := deploy/kubernetes/chart
manifests: $(HELM) ## deploy/kubernetes/*.yaml from the chart, for those who have no Helm
	@sum=$$(find $(CHART) -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -d' ' -f1); \
	for one in 'tierml --set=namespace.create=true --set=controller.enabled=false' 'server --set=image=registry.example.com/tierml:latest --show-only=templates/server.yaml'; do \
	  call="template tierml $(CHART) --namespace=tierml $${one#* }"; \
	  { echo "# helm $$call"; echo "# Made by \`make manifests\` of the chart $$sum; change that."; $(HELM) $$call; } >deploy/kubernetes/$${one%% *}.yaml; done

$(HELM): | $(CACHE)
	@echo "building helm; it takes some minutes, once"
	@$(GO) -C tools/helm build -ldflags '-s -w' -o $(CURDIR)/$@ helm.sh/helm/v3/cmd/helm

.PHONY: test-kube
test-kube: $(HELM) ## the same on a real kube-apiserver with etcd (builds them in .cache: a quarter of an hour of processor time and 2.5 GB, once)
	@GO="$(GO)" .ci/with-kube $(CACHE) .ci/with-versitygw $(CACHE) $(GO) test -tags kube -count=1 -v -p 1 -timeout 60m -run Real ./providers/kube/api ./test/kube

.PHONY: test-terraform
test-terraform: ## the Terraform modules against the providers' schemas, with made-up answers (needs terraform, node and npm)
	@GO="$(GO)" .ci/test-terraform $(CACHE)

.PHONY: test-metrics
test-metrics: ## alert rules and metrics against Prometheus's own checker, and a real Prometheus that scrapes a run (installs Debian's if it can)
	@.ci/install /usr/bin/promtool prometheus
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/alerts_test.yml
	TIERML_PROMTOOL=promtool TIERML_PROMETHEUS=prometheus .ci/test-without-skips -run 'Promtool|PrometheusScrapes' ./watch/dashboard

.PHONY: test-browser
test-browser: $(CACHE) ## the report pages of the last run and of the tests' story in a browser (installs Debian's chromium if it can)
	@.ci/test-browser $(CACHE)/pictures $$(ls -t runs/*/report.json 2>/dev/null | head -1)

.PHONY: pictures
pictures: build $(CACHE) ## the README's film and pictures, of runs made for them (five minutes, a quiet machine; installs asciinema in .cache)
	@.ci/pictures $(CACHE) docs/images

.PHONY: paper
paper: STARTS ?= 20
# Another market goes to another page: make paper PAPER="-trace a.csv.gz -catalog types.csv.gz -o page.md".
PAPER ?= -o test/papers/paper.md
paper: ## TierML's analysis on recorded prices beside the paper's figures (DATA=folder, STARTS=every|N, PAPER=flags; test/papers/paper.md)
	$(GO) run ./test/paper -data $(DATA) -starts $(STARTS) $(PAPER)

.PHONY: explore
SEEDS ?= 5000
explore: ## the protocol in random worlds: lost, late and repeated messages, machines that die at any step (SEEDS=n FIRST=seed FOR=1m)
	@first="$(FIRST)"; first=$${first:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; \
	echo "exploring $(SEEDS) worlds from seed $$first on; to repeat: make explore SEEDS=$(SEEDS) FIRST=$$first"; \
	TIERML_SEEDS=$(SEEDS) TIERML_FIRST=$$first TIERML_FOR=$(FOR) $(GO) test -timeout 0 -count=1 -v -run 'RandomSchedules' ./elasticity

.PHONY: soak
STORMS ?= 1
SOAK ?=
soak: ## real processes under every disturbance: each application and consistency, and storms (STORMS=n SEED=s DATA=folder SOAK=flags)
	$(GO) run ./test/trials soak -storms $(STORMS) -seed $(SEED) -data $(DATA) $(SOAK)

.PHONY: chaos
DURATION ?= 15m
FAULTS ?= 200
chaos: ## random faults on a run of real processes with a separate fake cloud (DURATION=15m FAULTS=200 SEED=s CHAOS=flags)
	$(GO) run ./test/trials chaos -duration $(DURATION) -faults $(FAULTS) -seed $(SEED) $(CHAOS)

.PHONY: recovery
ROUNDS ?= 5
recovery: ## how long training stands still when half of the ActivePSs go, killed or silent (ROUNDS=n)
	$(GO) run ./test/trials recovery -rounds $(ROUNDS)

.PHONY: elastic
elastic: ## what a change of machines or settings costs, and moves in each way, beside save, kill and restart (ROUNDS=n)
	$(GO) run ./test/trials elastic -rounds $(ROUNDS)

.PHONY: agents
agents: ## what a clock costs as machines are added and the work stays the same: rate, processor time, messages (AGENTS=flags)
	$(GO) run ./test/trials agents $(AGENTS)

.PHONY: many
MANY ?= 1000
many: ## the real controller with a thousand agents in one process: joins, a bulk eviction, cuts, and the processor time of its steps (MANY=machines)
	TIERML_MACHINES=$(MANY) $(GO) test ./elasticity -run ManyMachines -bench Notice -benchtime 8x -v -count=1 -timeout 60m

.PHONY: figures
FIGURES ?=
figures: ## figures 7-11 of the paper: up to 64 machines in network namespaces with shaped links (root; FIGURES=flags, test/papers/figures.md)
	$(GO) run ./test/trials figures $(FIGURES)

.PHONY: jobs
JOBS ?= 10
jobs: ## EPS's figures 14-18 and Dorm's 6-9 over ten seeds, with intervals (JOBS=n seeds; test/papers/schedulers.md)
	TIERML_SEEDS=$(JOBS) $(GO) test ./sim/jobs -run 'TestFiguresOf(EPS|Dorm)|TestPrices' -v -count=1 -timeout 60m
	TIERML_SEEDS=$(JOBS) $(GO) test ./sched -run TestFeedbackBesideH -v -count=1

.PHONY: paces
paces: ## what each setting does to the clocks of mf, dnn and mlr on six machines with links of 100 Mbit/s (root; DATA=folder)
	rm -f $(CACHE)/paces.csv
	$(GO) run ./test/trials paces -app mf -to $(CACHE)/paces.csv
	$(GO) run ./test/trials paces -app dnn -params '{"hidden": 64}' -data $(DATA)/ml/mlr/mnist-t10k-images-idx3-ubyte.gz -to $(CACHE)/paces.csv
	{ gunzip -c $(DATA)/ml/lda/labels.20news-train.txt.gz; gunzip -c $(DATA)/ml/lda/docword.20news-train.txt.gz | tail -n +4; } | \
	  awk 'NF == 1 {label[++n] = $$1} NF == 3 {if ($$1 != doc) {if (doc) print ""; doc = $$1; printf "%s", label[doc]}; printf " %s:%s", $$2, $$3} END {print ""}' >$(CACHE)/20news.libsvm
	$(GO) run ./test/trials paces -app mlr -params '{}' -data $(CACHE)/20news.libsvm -to $(CACHE)/paces.csv
	cp $(CACHE)/paces.csv elasticity/tuning/testdata/paces.csv

.PHONY: golden
golden: ## rewrite the expected output in testdata and docs/cli.md, to be read before it is committed
	$(GO) test $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -n1 dirname | sort -u) -update
	@git --no-pager diff --stat -- "*testdata*" docs 2>/dev/null || true

.PHONY: hosts
hosts: ## four jobs on shared hosts, with an eviction and a kill, byte for byte and to the billionth
	TIERML_TEST_HOSTS=1 $(GO) test ./cmd/tierml -count 1 -run TestJobsShareHosts -v

.PHONY: clocks
clocks: ## the clocks of four jobs on shared hosts beside those of each alone (a quiet computer)
	TIERML_TEST_CLOCKS=1 $(GO) test ./cmd/tierml -count 1 -run TestClocksOnSharedHosts -v -timeout 20m

.PHONY: pool
POOL ?= 1
pool: ## twenty jobs on shared hosts of a job server, and thirty random faults (POOL=seed, minutes)
	TIERML_TEST_POOL=$(POOL) $(GO) test ./cmd/tierml -count 1 -timeout 60m -run TestTwentyJobsAndThirtyFaults -v

.PHONY: pool-costs
pool-costs: STARTS ?= 100
pool-costs: ## what four jobs on shared hosts cost beside four apart, in four markets (DATA=DIR STARTS=n ONLY=part of a market)
	@TIERML_POOL_STARTS=$(STARTS) TIERML_POOL_ONLY="$(ONLY)" TIERML_POOL_DATA="$(abspath $(DATA))" $(GO) test ./sim/sweep -run 'PoolCosts|QuarterOfAReliable' -v -count=1 -timeout 0

.PHONY: pool-bound
pool-bound: ## what sharing reliable machines can save at most, for models of all sizes and fleets of 4 to 256 vCPUs (DATA=DIR ONLY=part of a market)
	@TIERML_POOL_BOUND="$(abspath $(DATA))" TIERML_POOL_ONLY="$(ONLY)" $(GO) test ./sim/sweep -run PoolBound -v -count=1 -timeout 0

.PHONY: isolation
isolation: ## two users on shared hosts try to read what is the other's: memory, files, logs, sockets, slots (root on Linux)
	TIERML_TEST_USERS=1 $(GO) test ./cmd/tierml -count 1 -run TestTwoUsersShareHosts -v

.PHONY: test-cgroup
test-cgroup: $(CACHE) ## slots that take too much memory, under a cgroup v2 of a virtual machine (Debian on amd64; installs qemu and busybox, a kernel in .cache)
	@.ci/install qemu-system-x86_64 qemu-system-x86
	@.ci/install busybox busybox-static
	$(GO) test -c -o $(CACHE)/cgroup/confine.test ./internal/confine
	$(GO) test -c -o $(CACHE)/cgroup/hostagent.test ./elasticity/hosts/hostagent
	.ci/with-kernel $(CACHE) $(GO) run ./test/cgroup -kernel $(CACHE)/kernel -run 'Together|SlotsOfAHost' $(CACHE)/cgroup/confine.test $(CACHE)/cgroup/hostagent.test

.PHONY: sweep
sweep: ## twelve trials on six shared slots by three schedulers, with hosts that are taken (needs a9a in DATA; minutes; SCHEDULERS=a,b)
	TIERML_TEST_SWEEP="$(abspath $(DATA))/ml/linear/a9a.gz" TIERML_SCHEDULERS="$(SCHEDULERS)" $(GO) test ./cmd/tierml -count 1 -timeout 90m -run TestSweepOfRates -v

.PHONY: promotions
promotions: $(CACHE) ## asha's promotions beside Syne Tune's on the same recorded losses (installs it in .cache; needs a9a in DATA)
	@[ -x $(CACHE)/promotions/bin/pip ] || python3 -m venv $(CACHE)/promotions
	@$(CACHE)/promotions/bin/pip install --quiet --disable-pip-version-check "syne-tune==0.13.0" "numpy<2" # later ones only stop trials
	$(GO) run ./test/trials promotions -python $(CACHE)/promotions/bin/python -data $(DATA)/ml/linear/a9a.gz

.PHONY: tpe
tpe: $(CACHE) ## `search: tpe` beside Optuna's TPESampler on the same functions (installs it in .cache; six minutes)
	@[ -x $(CACHE)/optuna/bin/pip ] || python3 -m venv $(CACHE)/optuna
	@$(CACHE)/optuna/bin/pip install --quiet --disable-pip-version-check "optuna==5.0.0"
	TIERML_TEST_OPTUNA=$(CURDIR)/$(CACHE)/optuna/bin/python $(GO) test ./sched/trials -count 1 -run TestTPEBesideOptuna -timeout 30m -v

.PHONY: shares
shares: ## how soon three jobs of weights 1, 2 and 4 have fair shares of eight slots (a quiet computer)
	TIERML_TEST_SHARES=1 $(GO) test ./cmd/tierml -count 1 -run TestSharesByWeight -v

.PHONY: fuzz
fuzz: ## fuzz each parser for a short while (FUZZTIME=20s)
	@grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do \
	  for name in $$(grep -ohE '^func Fuzz[A-Za-z0-9_]*' "$$package"/*_test.go | cut -d' ' -f2); do \
	    echo "fuzzing $$package $$name for $(FUZZTIME)"; \
	    $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package"; \
	  done; done

.PHONY: metamorphic
metamorphic: ## 10,000 random markets that must not change any policy's decision
	$(GO) test ./bidding -run MetamorphicOfAll -rapid.checks=10000 -timeout 60m

.PHONY: shapes
shapes: $(CACHE) ## what EC2's machine types sustain, from moto's copy of DescribeInstanceTypes (needs pip)
	pip download --quiet --no-deps --dest $(CACHE)/moto-wheel 'moto>=5,<6'
	unzip -qop $$(ls -t $(CACHE)/moto-wheel/moto-5*.whl | head -1) moto/ec2/resources/instance_types.json.gz >$(CACHE)/instance_types.json.gz
	$(GO) run market/shapes/generate.go $(CACHE)/instance_types.json.gz >market/shapes/ec2.csv
	pip download --quiet --no-deps --dest $(CACHE)/moto-wheel 'moto==4.2.14'
	unzip -qop $(CACHE)/moto-wheel/moto-4.2.14-*.whl moto/ec2/resources/instance_types.json >$(CACHE)/instance_types_4.json
	$(GO) run market/shapes/generate.go -gpus $(CACHE)/instance_types.json.gz $(CACHE)/instance_types_4.json >market/shapes/gpus.csv

.PHONY: generate
generate: $(CACHE) ## generate Go from the .proto files (needs protoc)
	@command -v protoc >/dev/null || { echo "install protoc (Debian: apt-get install protobuf-compiler)"; exit 1; }
	$(GO) build -modfile=tools/go.mod -o $(CACHE)/bin/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	PATH="$(CURDIR)/$(CACHE)/bin:$$PATH" protoc -I. \
	  --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative \
	  $$(find . -name '*.proto' -not -path './$(CACHE)/*' | sed 's,^\./,,')

$(CACHE):
	@mkdir -p $@ && echo '*' >$@/.gitignore

.PHONY: completions
completions: build $(CACHE) ## completion scripts for bash, zsh and fish in .cache/completions
	@mkdir -p $(CACHE)/completions
	@bin/tierml completion bash >$(CACHE)/completions/tierml.bash
	@bin/tierml completion zsh >$(CACHE)/completions/_tierml
	@bin/tierml completion fish >$(CACHE)/completions/tierml.fish

.PHONY: release
# Another set of systems: make release TARGETS=linux/amd64.
TARGETS ?=
release: completions ## archives for linux and mac, amd64 and arm64, with checksums, in dist (TARGETS=os/arch...)
	GO="$(GO)" .ci/release dist "$(VERSION)" $(TARGETS)

.PHONY: clean
clean: ## remove what was built and downloaded; runs stay
	rm -rf bin dist $(CACHE)
