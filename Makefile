# `make demo` shows what Muster does; `make test` proves it. Both install what they need on a fresh Debian 12 machine.

SHELL  := /bin/bash
GO     := go
BINARY := bin/muster
FIRST  := internal/boot/initramfs/built/muster-init
IMAGE  := debian13-hpc
IMAGES := $(IMAGE) inspector
TOOLS  := ui/tools/node_modules/.package-lock.json
# The race detector, but for SQLite itself, which is C in Go's words and five times slower under it. (Packages that use the
# library's sync must stay under it: the linker keeps one copy of a generic function, and one without it makes false alarms.)
RACE   := -race -gcflags=modernc.org/sqlite/lib=-race=false
# A program under the race detector sleeps a second at its end, for reports of others' threads; a tenth does.
export GORACE := atexit_sleep_ms=100
export MUSTER_TEST_IMAGES := $(CURDIR)/build/images
export MUSTER_TEST_KERNEL := $(CURDIR)/build/kernel
export MUSTER_TEST_IMAGE  := $(CURDIR)/build/images/$(IMAGE)/latest/root.squashfs

.PHONY: help setup build image ui demo demo-stop test test-all attack spark-test lint unit crash walk compare fuzz openapi pictures clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 24

setup: ## install the Debian packages that Muster needs (root)
	@scripts/setup.sh run

build: ## the binary, at bin/muster, with the first stage of machines inside, and the virtual rack's, bin/muster-rack
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(FIRST) ./cmd/muster-init
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BINARY) ./cmd/muster
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BINARY)-rack ./cmd/muster-rack

image: setup build ## the images of nodes and of inspection, in build/images
	@for i in $(IMAGES); do test -e build/images/$$i/latest/vmlinuz || $(BINARY) images build $$i --data build || exit 1; done

demo: image ## a real cluster with a real MPI job on this machine
	@scripts/demo.sh

demo-stop: ## end the demo and leave the host as it was
	@scripts/demo-stop.sh

# As the binary is built, so that nothing is compiled for them alone.
lint: export CGO_ENABLED := 0
lint: export GOFLAGS := -trimpath
lint: ## gofmt, go vet, staticcheck, modules' checksums, known vulnerabilities, shell syntax
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); test -z "$$unformatted" || { echo "not formatted: $$unformatted" >&2; exit 1; }
	@$(GO) vet ./...
	@$(GO) tool staticcheck ./...
	@$(GO) mod verify >/dev/null
	@GO=$(GO) scripts/vulnerabilities.sh
	@for f in $$(git ls-files --cached --others --exclude-standard '*.sh'); do bash -n "$$f" || exit 1; done
	@echo "lint: clean"

unit: ## the tests of `make test` that need no image
	@MUSTER_TEST_IMAGE= MUSTER_TEST_IMAGES=/nonexistent $(GO) tool gotestsum --format pkgname-and-test-fails -- -short ./...

# tests runs the tests by scripts/test.sh, built with $(1), with $(2). First it compiles them: the runs of packages would do that twice,
# as they begin together. `make lint` has vetted. Results are not cached: tests depend on programs and images, of which Go knows nothing.
define tests
	@$(GO) list -export -test -deps $(1) ./... >/dev/null
	@set -o pipefail; GO=$(GO) $(GO) tool gotestsum --format pkgname-and-test-fails --jsonfile build/test.json \
		--raw-command -- scripts/test.sh $(1) $(2) -count 1 -vet=off | scripts/left.sh build/test.json
endef

# As the binary is built, so that nothing is compiled for them alone.
test: export CGO_ENABLED := 0
test: export GOFLAGS := -trimpath
test: ## the gate of every change: lint, and all tests but those that take long, within ten minutes (root)
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory -j2 image lint
	$(call tests,,-short -timeout 10m)

test-all: IMAGES += debian12-hpc $(if $(filter x86_64,$(shell uname -m)),debian12-hypervisor)
test-all: ## every test, with the race detector, on both databases, with emulated machines: about two hours (root)
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory -j2 image build/kernel lint $(TOOLS) IMAGES="$(IMAGES)"
	$(call tests,$(RACE),-timeout 2h)

build/kernel: # Debian's kernel for virtual machines, unpacked: it has drivers that an image's does not need
	@apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update -qq
	@cd build && apt-get download -qq "$$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')" && \
		dpkg -x linux-image-*.deb kernel.part && rm linux-image-*.deb && mv kernel.part kernel

attack: image ## the attacks that docs/security.md lists, on a real site in namespaces (root)
	@scripts/setup.sh test
	@GO=$(GO) $(GO) tool gotestsum --format testname --raw-command -- scripts/attack.sh

spark-test: image ## Spark on a plain cluster, which downloads 480 MB into build/spark once (root, minutes)
	@scripts/setup.sh test
	@MUSTER_TEST_SPARK=$(CURDIR)/build/spark $(GO) tool gotestsum --format standard-verbose -- -timeout 30m -run Spark -count 1 ./test/e2e

crash: image ## the long crash run: kill -9 at random moments for MUSTER_CRASH_KILLS kills
	@scripts/setup.sh test
	@MUSTER_CRASH_KILLS=$${MUSTER_CRASH_KILLS:-300} $(GO) tool gotestsum --format standard-verbose -- -timeout 3h -run Crash -count 1 ./test/crash

walk: image ## the long random walks: MUSTER_OPERATIONS operations (200) on fake and on real nodes, both databases; MUSTER_SEED repeats one
	@scripts/setup.sh test
	@MUSTER_OPERATIONS=$${MUSTER_OPERATIONS:-200} $(GO) tool gotestsum --format standard-verbose -- -timeout 2h -run RandomOperations -count 1 -p 1 ./internal/kinds ./test/crash

compare: image ## our figures beside those of the bare programs, in one run, on a quiet machine: half an hour (root)
	@scripts/setup.sh test
	@MUSTER_COMPARE=1 $(GO) test ./test/compare -run TestCompare -count 1 -timeout 30m -v

fuzz: ## every fuzz target for a minute
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s $$p || exit 1; done; done

openapi: ## write api/openapi.yaml again from the types
	@$(GO) test ./api -run TestOpenAPI -update

$(TOOLS): ui/tools/package-lock.json # what writes the console's types, and axe-core
	@command -v npm >/dev/null || { echo "ui: npm is not there; apt-get install nodejs npm" >&2; exit 1; }
	@cd ui/tools && npm ci --silent --no-audit --no-fund && touch node_modules/.package-lock.json

ui: $(TOOLS) ## build the console from ui/src into ui/dist, which the binary carries (Node)
	@scripts/ui.sh

pictures: export MUSTER_TEST_PICTURES := $(CURDIR)/build/pictures
pictures: $(TOOLS) ## pictures of the console's pages in build/pictures, light and dark, wide and small (root)
	@$(GO) test ./test/console -run EveryPage -count 1

clean: ## remove what was built
	@rm -rf bin build $(FIRST)
