package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
)

// Where this names a file, BenchmarkBatch measures that one's blocks.
const corpusEnv = "BBPROF_CORPUS"

// BenchmarkBatch measures a corpus with one worker, with two and with one on each core, as a
// process of its own, and says what a block costs and how good the last result is:
//
//	blocks/s       from the first row to the last, retries included
//	%timed-code    of the workers' time, between clock readings that count
//	%ok            of the rows
//	%width         of the median interval, as a share of the cycles
func BenchmarkBatch(b *testing.B) {
	blocks := os.Getenv(corpusEnv)
	if blocks == "" {
		blocks = "../../testdata/blocks-own.csv"
	}
	require.Measure(b, tryOnce())
	every := require.Get(blockflags.WorkerCPUs(nil, 0))(b)
	counts := []int{1, 2, len(every.Workers)}
	slices.Sort(counts)
	for _, workers := range slices.Compact(counts) {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			if _, err := blockflags.WorkerCPUs(nil, workers); errors.As(err, new(*host.LayoutError)) {
				require.Skip(b, require.CPU, "%v", err)
			}
			var s benchSummary
			for b.Loop() {
				s = benchBatch(b, blocks, workers)
			}
			r := s.Result
			b.ReportMetric(float64(r.Measured)/r.Seconds, "blocks/s")
			b.ReportMetric(100*r.TimedSeconds/(r.Seconds*float64(workers)), "%timed-code")
			b.ReportMetric(100*float64(r.OK)/float64(r.Rows), "%ok")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// benchSummary is what the benchmark takes from a -summary.
type benchSummary struct {
	Result struct {
		Rows         int64   `json:"rows"`
		OK           int64   `json:"ok"`
		Seconds      float64 `json:"seconds"`
		TimedSeconds float64 `json:"timed_seconds"`
		Measured     int64   `json:"measured"`
	} `json:"result"`
}

func benchBatch(b *testing.B, blocks string, workers int) (s benchSummary) {
	dir := b.TempDir()
	summary := filepath.Join(dir, "summary.json")
	cmd := exec.Command("bbprof", "batch", "-workers", fmt.Sprint(workers), "-summary", summary, "-o", filepath.Join(dir, "result.csv"), blocks)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	require.NoError(b, json.Unmarshal(require.Get(os.ReadFile(summary))(b), &s))
	return s
}
