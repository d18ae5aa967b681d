FUZZTIME ?= 30s
SOAKTIME ?= 30m

.PHONY: build release image test lint fuzz fuzz-targets soak state bench check readme

# What bbprof version says, also where Go does not stamp it or the checkout is an archive.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
CLI = github.com/bbprof/bbprof/cmd/bbprof/internal/cli
LDFLAGS = -s -w -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT)

# Without C the binary is static, whatever compiler is installed.
build:
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bbprof ./cmd/bbprof

# One archive with the static binary, its man page, completions for three shells, the documentation, and
# checksums of all of them; beside it the checksum of the archive. The same commit gives the same bytes.
OUT ?= out
TRIM = -trimpath
NAME = bbprof-$(VERSION)-linux-amd64
release:
	rm -rf $(OUT)/$(NAME) && mkdir -p $(OUT)/$(NAME)
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build $(TRIM) -buildvcs=false -ldflags '$(LDFLAGS)' -o $(OUT)/$(NAME)/bbprof ./cmd/bbprof
	cp -r LICENSE README.md CITATION.cff ARCHITECTURE.md CONTRIBUTING.md docs $(OUT)/$(NAME)
	cd $(OUT)/$(NAME) && ./bbprof help -man > bbprof.1 && ./bbprof completion bash > bbprof.bash && \
		./bbprof completion zsh > _bbprof && ./bbprof completion fish > bbprof.fish && \
		find * -type f | LC_ALL=C sort | xargs sha256sum > ../SHA256SUMS && mv ../SHA256SUMS .
	cd $(OUT) && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - $(NAME) | gzip -n > $(NAME).tar.gz
	cd $(OUT) && sha256sum $(NAME).tar.gz > $(NAME).tar.gz.sha256

# The image of Containerfile, with podman or ENGINE=docker.
ENGINE ?= podman
image:
	$(ENGINE) build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t bbprof -f Containerfile .

test:
	go test ./...

lint:
	.ci/run lint

# Every fuzz target there is, one after the other, and then the whole path with 200,000 random
# byte strings, 100,000 random sequences of valid instructions and 20,000 mutated blocks.
fuzz: fuzz-targets
	BBPROF_LONG=1 go test -count=1 -v -timeout 3h -run '^TestWholePath$$' ./profiler

fuzz-targets:
	@set -e; grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*:func | |' | \
	while read -r dir name; do \
		echo "$$dir $$name"; \
		go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) "$$dir"; \
	done

# Hostile and known blocks in turn: rate, memory and numbers have to stay as they are.
soak:
	BBPROF_SOAK=$(SOAKTIME) go test -count=1 -v -timeout 0 -run '^TestSoak$$' ./cmd/bbprof/internal/host/selftest

# The canary's number between 1,000 random blocks.
state:
	BBPROF_LONG=1 go test -count=1 -v -timeout 3h -run '^Test(CanaryNumber|StateAfterHostileBlocks)$$' ./profiler

# BenchmarkBatch takes another corpus than testdata/blocks-own.csv by CORPUS=FILE.
bench:
	BBPROF_CORPUS=$(abspath $(CORPUS)) go test -run '^$$' -bench . ./...

# What a merge needs.
check:
	.ci/run

# Copy the examples of README.md and docs from a run on this machine.
readme:
	go test ./cmd/bbprof -run '^TestExamples$$' -count=1 -update
