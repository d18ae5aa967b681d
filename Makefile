FUZZTIME ?= 30s

.PHONY: build test lint fuzz bench check readme

build:
	go build -o bbprof ./cmd/bbprof

test:
	go test ./...

lint:
	.ci/run lint

# Every fuzz target there is, one after the other.
fuzz:
	@set -e; grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*:func | |' | \
	while read -r dir name; do \
		echo "$$dir $$name"; \
		go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) "$$dir"; \
	done

bench:
	go test -run '^$$' -bench . ./...

# What a merge needs.
check:
	.ci/run

# Copy the README's examples from a run on this machine.
readme:
	go test ./cmd/bbprof -run '^TestREADME$$' -count=1 -update
