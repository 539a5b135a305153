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
BUILD := -ldflags '-s -w -X github.com/tierml/tierml/cmd/tierml/internal/cli.BuildVersion=$(VERSION)'
# One set of flags for build, test and lint, so that what one has compiled serves the others. Debug information is what the linker
# drops anyway (-s -w). The EC2 SDK, a package of 20 MB of source that waits for the network, takes half as long to compile
# unoptimised; releases optimise it. Go's own stamp of the version is off, because it makes builds fail in clones that belong to
# somebody else. Google's storage client speaks gRPC with Google's own load balancing unless the tag turns it off: 150 packages that nothing
# here uses.
FAST := -trimpath -buildvcs=false -tags=disable_grpc_modules -gcflags=all=-dwarf=false '-gcflags=github.com/aws/aws-sdk-go-v2/service/ec2=-dwarf=false -N -l'
export GOFLAGS := $(strip $(GOFLAGS) $(FAST))
# .ci/run has a failed test run again: .ci/rerun.
TEST ?= $(GO) test
# Tests need neither vet, which `make lint` runs, nor what debuggers read.
QUICK := -vet=off '-ldflags=-s -w'
TOOL := $(GO) tool -modfile=tools/go.mod
# Things that are downloaded or built for checks; it ignores itself.
CACHE := .cache
FUZZTIME ?= 20s
# Recordings and data sets, which the repository does not have.
DATA ?= ../shared/data
SEED ?= 1
# Packages with goroutines, which internal/archtest compares: what the race detector is for. Those of elasticity that decide have none.
RACE ?= ./apps/input ./apps/labelled ./apps/lda ./apps/local ./internal/parallel ./cmd/... ./doctor/... ./elasticity/hosts/desk ./elasticity/hosts/hostagent ./elasticity/runner/... ./elasticity/scaling/... \
  ./fakecloud/... ./internal/... ./jobmanager/... ./jobrun/... ./planner/... ./program/... ./providers/... ./provisioner/... ./ps/... ./tiers/... ./watch/...

.PHONY: help
help: ## list the targets
	@echo "Start with: make demo"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "make help-checks lists single checks, make -C lab help measurements and comparisons."

.PHONY: help-checks
help-checks: # list the targets that check or make one thing
	@awk -F ':[^#]*# ' '/^[a-z-]+:[^#]*# / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

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
	$(TEST) $(QUICK) -timeout 20m ./...

.PHONY: fast
fast: ## what pull requests wait for first: build, vet, the tests but the long ones
	$(GO) build ./...
	$(GO) vet ./...
	$(TEST) $(QUICK) -short -timeout 10m ./...

.PHONY: race
race: ## the tests of packages with goroutines, under the race detector (needs a C compiler)
	@command -v $${CC:-gcc} >/dev/null || { echo "the race detector needs a C compiler; install gcc (Debian: apt-get install gcc libc6-dev)"; exit 1; }
	CGO_ENABLED=1 $(TEST) -race -timeout 30m $(RACE)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, errorlint, the schema of job files
	@files=$$(gofmt -l $$(find . -name '*.go' -not -path './$(CACHE)/*')); \
	  if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) go-errorlint ./...
	$(GO) -C tools/schema test ./...

.PHONY: check
check: SEEDS = 8000
check: FOR = 1m
check: lint sessions test lab explore race test-awscli test-moto test-stores test-programs test-terraform test-metrics demo test-browser ## everything that .ci/run checks

.PHONY: lab
lab: ## build and vet lab/, and run its quick tests
	@$(MAKE) --no-print-directory -C lab check

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
test-awscli: # the fake cloud against the AWS command line (installs Debian's awscli if it can)
	@.ci/install /usr/bin/aws awscli
	.ci/test-without-skips -timeout 10m -run AWSCommandLine ./fakecloud

.PHONY: test-moto
test-moto: # the EC2 adapter against moto, an EC2 that nobody here wrote (installs it in .cache)
	@.ci/with-moto $(CACHE) .ci/test-without-skips -timeout 10m -run Moto ./providers/ec2/api

.PHONY: test-programs
test-programs: python $(CACHE) ## docs/applications.md's Python, the Python package with torch and its types, examples/programs (installs Debian's python3-torch, others in .cache)
	@.ci/install python3:torch python3-torch
	@[ -x $(CACHE)/programs/bin/pip ] || python3 -m venv $(CACHE)/programs
	@$(CACHE)/programs/bin/pip install --quiet --disable-pip-version-check xgboost-cpu scikit-learn safetensors
	.ci/test-types $(CACHE)
	PYTHON="$(CURDIR)/$(CACHE)/programs/bin/python" .ci/test-without-skips -timeout 10m -run PythonOnThePage ./apps/all
	.ci/trainers $(CACHE)
	PYTHON="$(CURDIR)/$(CACHE)/trainers/bin/python" TIERML_TORCH=1 .ci/test-without-skips -timeout 10m ./python
	PATH="$(CURDIR)/$(CACHE)/programs/bin:$$PATH" TIERML_PROGRAMS=1 .ci/test-without-skips -timeout 20m -run ProgramExamples ./cmd/tierml

.PHONY: test-containers
test-containers: # programs with an image in real containers (installs Debian's podman if it can)
	@.ci/install podman podman runc
	TIERML_CONTAINERS=1 .ci/test-without-skips -timeout 10m -run Podman ./program

.PHONY: test-stores
test-stores: # program, splits and checkpoints in object stores that nobody here wrote (builds versitygw in .cache)
	@GO="$(GO)" .ci/with-versitygw $(CACHE) sh -c '.ci/test-without-skips -timeout 10m -skip SaveCost ./test/stores && .ci/test-without-skips -run VersityGW ./providers/ec2/api'

.PHONY: image
# The file is where Debian has it.
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
PLATFORMS ?= linux/amd64 linux/arm64
image: $(CACHE) ## a container image, from scratch and without Docker: an OCI layout in dist/image (PLATFORMS=)
	@for p in $(PLATFORMS); do echo "building for $$p"; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build $(BUILD) -o "$(CACHE)/image/$$p" ./cmd/tierml; done
	@$(GO) run ./cmd/image "$(CURDIR)/dist/image" "$(CERTIFICATES)" $(foreach p,$(PLATFORMS),$(p)=$(CURDIR)/$(CACHE)/image/$(p))

.PHONY: manifests
# Helm's own place is .ci/with-kube's, too.
HELM := $(CACHE)/kube/helm
CHART := deploy/kubernetes/chart
manifests: $(HELM) # deploy/kubernetes/*.yaml from the chart, for those who have no Helm
	@sum=$$(find $(CHART) -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -d' ' -f1); \
	for one in 'tierml --set=namespace.create=true --set=controller.enabled=false' 'server --set=image=registry.example.com/tierml:latest --show-only=templates/server.yaml'; do \
	  call="template tierml $(CHART) --namespace=tierml $${one#* }"; \
	  { echo "# helm $$call"; echo "# Made by \`make manifests\` of the chart $$sum; change that."; $(HELM) $$call; } >deploy/kubernetes/$${one%% *}.yaml; done

$(HELM): | $(CACHE)
	@echo "building helm; it takes some minutes, once"
	@$(GO) -C tools/helm build -ldflags '-s -w' -o $(CURDIR)/$@ helm.sh/helm/v3/cmd/helm

.PHONY: test-kube
test-kube: $(HELM) # the same on a real kube-apiserver with etcd and Kueue (builds them in .cache: half an hour of processor time and 3.5 GB, once)
	@GO="$(GO)" .ci/with-kube $(CACHE) .ci/with-versitygw $(CACHE) $(GO) test -count=1 -v -p 1 -timeout 60m -run Real ./providers/kube/api ./test/kube

.PHONY: test-terraform
test-terraform: # the Terraform modules against the providers' schemas, with made-up answers (needs terraform, node and npm)
	@GO="$(GO)" .ci/test-terraform $(CACHE)

.PHONY: test-metrics
test-metrics: # alert rules and metrics against Prometheus's own checker, and a real Prometheus that scrapes a run (installs Debian's if it can)
	@.ci/install /usr/bin/promtool prometheus
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/alerts_test.yml
	TIERML_PROMTOOL=promtool TIERML_PROMETHEUS=prometheus .ci/test-without-skips -run 'Promtool|PrometheusScrapes' ./watch/dashboard

.PHONY: test-browser
test-browser: $(CACHE) # the report pages of the last run and of the tests' story in a browser (installs Debian's chromium if it can)
	@.ci/test-browser $(CACHE)/pictures $$(ls -t runs/*/report.json 2>/dev/null | head -1)

.PHONY: pictures
pictures: build $(CACHE) # the README's film and pictures, of runs made for them (five minutes, a quiet machine; installs asciinema in .cache)
	@.ci/pictures $(CACHE) docs/images

.PHONY: explore
SEEDS ?= 5000
explore: ## the protocol in random worlds: lost, late and repeated messages, machines that die at any step (SEEDS=n FIRST=seed FOR=1m)
	@first="$(FIRST)"; first=$${first:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; \
	echo "exploring $(SEEDS) worlds from seed $$first on; to repeat: make explore SEEDS=$(SEEDS) FIRST=$$first"; \
	TIERML_SEEDS=$(SEEDS) TIERML_FIRST=$$first TIERML_FOR=$(FOR) $(GO) test -timeout 0 -count=1 -v -run 'RandomSchedules' ./elasticity

# Trials of whole jobs; lab/Makefile has their settings.
TRIAL = $(MAKE) --no-print-directory -C lab $@
.PHONY: soak
soak: ## real processes under every disturbance: each application and consistency, and storms (STORMS=n SEED=s SOAK=flags)
	@$(TRIAL)

.PHONY: agree
agree: # what a plan says of a job's own start, its dry run and its run: 84 jobs and more at random, in real time (a quiet machine; half an hour; CELLS=n DRAWN=n AGREE=flags)
	@$(TRIAL)

.PHONY: chaos
chaos: ## random faults on a run of real processes with a separate fake cloud (DURATION=15m FAULTS=200 SEED=s CHAOS=flags)
	@$(TRIAL)

.PHONY: storm
storm: # faults on two job servers with twelve jobs of all kinds, as root (SEED=s STORM="-faults 150 -duration 20m")
	@$(TRIAL)

.PHONY: mutations
mutations: # takes rules of docs/security.md out, one by one: their tests must fail (ONLY=regular expression)
	$(GO) run ./test/mutations -only '$(ONLY)'

.PHONY: golden
golden: ## rewrite the expected output in testdata and docs/cli.md, to be read before it is committed
	$(GO) test $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -n1 dirname | sort -u) -update
	@git --no-pager diff --stat -- "*testdata*" docs 2>/dev/null || true

.PHONY: hosts
hosts: # four jobs on shared hosts, with an eviction and a kill, byte for byte and to the billionth
	TIERML_TEST_HOSTS=1 $(GO) test ./cmd/tierml -count 1 -run TestJobsShareHosts -v

.PHONY: pool
POOL ?= 1
pool: # twenty jobs on shared hosts of a job server, and thirty random faults (POOL=seed, minutes)
	TIERML_TEST_POOL=$(POOL) $(GO) test ./cmd/tierml -count 1 -timeout 60m -run TestTwentyJobsAndThirtyFaults -v

.PHONY: isolation
isolation: # two users on shared hosts try to read what is the other's: memory, files, logs, sockets, slots (root on Linux)
	TIERML_TEST_USERS=1 $(GO) test ./cmd/tierml -count 1 -run TestTwoUsersShareHosts -v

.PHONY: network
network: # a controller in a network namespace of its own, cut off from its machines for 30 s (root on Linux; needs ip)
	TIERML_TEST_NETWORK=1 $(GO) test ./cmd/tierml -count 1 -run TestNetworkIsCut -v

.PHONY: refusals
REFUSALS ?= .
refusals: # a provider that refuses, breaks or hangs, for good and for a minute: each is reported in time (REFUSALS=names, a quiet computer)
	TIERML_TEST_REFUSALS='$(REFUSALS)' $(GO) test ./cmd/tierml -count 1 -timeout 60m -run TestProviderRefusesInTime -v

.PHONY: crowd
CROWD ?= 96
crowd: # many agents on this computer: they train, run programs, are evicted, and their controller is killed (CROWD=machines, a quiet computer)
	TIERML_TEST_CROWD=$(CROWD) $(GO) test ./cmd/tierml -count 1 -run TestCrowd -v

.PHONY: test-cgroup
test-cgroup: $(CACHE) # slots that take too much memory, under a cgroup v2 of a virtual machine (Debian on amd64; installs qemu and busybox, a kernel in .cache)
	@.ci/install qemu-system-x86_64 qemu-system-x86
	@.ci/install busybox busybox-static
	$(GO) test -c -o $(CACHE)/cgroup/confine.test ./internal/confine
	$(GO) test -c -o $(CACHE)/cgroup/hostagent.test ./elasticity/hosts/hostagent
	.ci/with-kernel $(CACHE) $(GO) run ./test/cgroup -kernel $(CACHE)/kernel -run 'Together|SlotsOfAHost' $(CACHE)/cgroup/confine.test $(CACHE)/cgroup/hostagent.test

.PHONY: fuzz
fuzz: ## fuzz each parser for a short while (FUZZTIME=20s)
	@grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do \
	  for name in $$(grep -ohE '^func Fuzz[A-Za-z0-9_]*' "$$package"/*_test.go | cut -d' ' -f2); do \
	    echo "fuzzing $$package $$name for $(FUZZTIME)"; \
	    $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package"; \
	  done; done

.PHONY: shapes
shapes: $(CACHE) # what EC2's machine types sustain, from moto's copy of DescribeInstanceTypes (needs pip)
	pip download --quiet --no-deps --dest $(CACHE)/moto-wheel 'moto>=5,<6'
	unzip -qop $$(ls -t $(CACHE)/moto-wheel/moto-5*.whl | head -1) moto/ec2/resources/instance_types.json.gz >$(CACHE)/instance_types.json.gz
	$(GO) run market/shapes/generate.go $(CACHE)/instance_types.json.gz >market/shapes/ec2.csv
	pip download --quiet --no-deps --dest $(CACHE)/moto-wheel 'moto==4.2.14'
	unzip -qop $(CACHE)/moto-wheel/moto-4.2.14-*.whl moto/ec2/resources/instance_types.json >$(CACHE)/instance_types_4.json
	$(GO) run market/shapes/generate.go -gpus $(CACHE)/instance_types.json.gz $(CACHE)/instance_types_4.json >market/shapes/gpus.csv

.PHONY: generate
generate: $(CACHE) # generate Go from the .proto files (needs protoc)
	@command -v protoc >/dev/null || { echo "install protoc (Debian: apt-get install protobuf-compiler)"; exit 1; }
	$(GO) build -modfile=tools/go.mod -o $(CACHE)/bin/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	PATH="$(CURDIR)/$(CACHE)/bin:$$PATH" protoc -I. \
	  --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative \
	  $$(find . -name '*.proto' -not -path './$(CACHE)/*' | sed 's,^\./,,')

$(CACHE):
	@mkdir -p $@ && echo '*' >$@/.gitignore

.PHONY: release
# Another set of systems: make release TARGETS=linux/amd64. The chart's image: make release IMAGE=registry.example.com/tierml.
TARGETS ?=
IMAGE ?=
release: ## archives, wheels, deb, rpm, image, chart, formula, SBOMs and checksums in dist (TARGETS=os/arch... IMAGE=name)
	@GO="$(GO)" $(GO) -C tools/release run . -out "$(CURDIR)/dist" -version "$(VERSION)" -image "$(IMAGE)" -certificates "$(CERTIFICATES)" $(TARGETS)

.PHONY: test-release
test-release: # packages of a release for this machine, installed into empty folders and run (installs Debian's rpm if it can)
	@.ci/install rpm rpm
	@.ci/install python3:venv python3-venv
	@GO="$(GO)" .ci/test-release dist

.PHONY: test-packages
PACKAGES ?=
test-packages: $(CACHE) # each package of dist in an empty Debian: installed, the demo, an eviction, a job server, removed (root; installs debootstrap; PACKAGES="deb wheel")
	@GO="$(GO)" .ci/test-packages dist $(CACHE) $(PACKAGES)

.PHONY: test-pythons
test-pythons: # the wheel of dist in an empty environment of each Python from 3.9 to 3.13 that is on the PATH or pyenv's: the demo, import, mypy
	@.ci/test-pythons dist

.PHONY: clean
clean: ## remove what was built and downloaded; runs stay
	rm -rf bin dist $(CACHE)
