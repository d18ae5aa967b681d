//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/batch"
	"github.com/bbprof/bbprof/internal/host"
)

// BenchmarkBatch measures a thousand compilers' blocks with one worker and with more, as a
// process of its own, and says what a block costs:
//
//	blocks/s       from the first row to the last, second looks included
//	%timed-code    of the workers' time, between clock readings that count
//	calls/block    system calls for measuring, those of the child included
//	stops/block    of the child
//	peak-MiB       of the process's memory
func BenchmarkBatch(b *testing.B) {
	const corpus = "../../../shared/corpus/blocks-1k.csv"
	if _, err := os.Stat(corpus); err != nil {
		b.Skipf("no corpus beside the project: %v", err)
	}
	if why := cannotMeasure(b); why != "" {
		b.Skip(why)
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cpus, err := host.AllowedCPUs()
	if err != nil {
		b.Fatal(err)
	}
	for workers := 1; workers <= len(cpus); workers *= 2 {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			var all batch.Tally
			var peak int64
			for b.Loop() {
				dir := b.TempDir()
				summary := filepath.Join(dir, "summary.json")
				cmd := exec.Command(exe)
				// By this name the test binary is bbprof; see TestMain.
				cmd.Args = []string{"bbprof", "batch", "-workers", fmt.Sprint(workers), "-summary", summary, "-o", filepath.Join(dir, "result.csv"), corpus}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				text, err := os.ReadFile(summary)
				if err != nil {
					b.Fatal(err)
				}
				var s struct {
					Result struct {
						Seconds      float64 `json:"seconds"`
						TimedSeconds float64 `json:"timed_seconds"`
						Measured     int64   `json:"measured"`
						Stops        int64   `json:"stops"`
						SystemCalls  int64   `json:"system_calls"`
					} `json:"result"`
				}
				if err := json.Unmarshal(text, &s); err != nil {
					b.Fatal(err)
				}
				all.Seconds += s.Result.Seconds
				all.TimedSeconds += s.Result.TimedSeconds
				all.Measured += s.Result.Measured
				all.Stops += s.Result.Stops
				all.SystemCalls += s.Result.SystemCalls
				peak = max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
			}
			b.ReportMetric(all.Rate(), "blocks/s")
			b.ReportMetric(100*all.TimedSeconds/(all.Seconds*float64(workers)), "%timed-code")
			b.ReportMetric(float64(all.SystemCalls)/float64(all.Measured), "calls/block")
			b.ReportMetric(float64(all.Stops)/float64(all.Measured), "stops/block")
			b.ReportMetric(float64(peak)/1024, "peak-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}
