FUZZTIME ?= 30s
SOAKTIME ?= 30m

.PHONY: build test lint fuzz fuzz-targets soak state bench check readme

# Where there is a C compiler, Go would link the C library for package net, which the Parquet library
# pulls in and bbprof never calls: a binary for this system alone, slower to start.
build:
	CGO_ENABLED=0 go build -o bbprof ./cmd/bbprof

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
	BBPROF_SOAK=$(SOAKTIME) go test -count=1 -v -timeout 0 -run '^TestSoak$$' ./cmd/bbprof/internal/selftest

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
