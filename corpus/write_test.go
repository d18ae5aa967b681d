package corpus

import (
	"encoding/csv"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func TestWriter(t *testing.T) {
	address := uint64(0x10)
	results := []profiler.Result{
		{Hex: "90", Status: profiler.OK, Cycles: 0.25, CILow: 0.2499, CIHigh: 0.25016, Instructions: 1, Bytes: 1,
			Mode: profiler.Both, FrontEnd: profiler.Decode, LoopCycles: 0.26, LoopCILow: 0.259, LoopCIHigh: 0.261, Disagreement: "the loop is slower",
			UnrollShort: 128, UnrollLong: 512, SamplesKept: 72, SamplesDropped: 0, Warnings: []string{"one", "two"}},
		{Hex: "90c3", Status: profiler.Rejected, Reason: verdict.ControlFlow, Mode: profiler.Unroll, FrontEnd: profiler.OpCache, Instructions: 2, Bytes: 2,
			Rejection: &verdict.Rejection{Reason: verdict.ControlFlow, Detail: "ret leaves the block", Inst: &verdict.Inst{Index: 1, Offset: 1, Text: "ret"}}},
		{Hex: "488b03", Status: profiler.Rejected, Reason: verdict.Unmappable, Cycles: 7, Mode: profiler.Loop, FrontEnd: profiler.OpCache, LoopCycles: 7, Instructions: 1, Bytes: 3, UnrollShort: 1, UnrollLong: 3, Pages: 2, Frames: 1,
			Rejection: &verdict.Rejection{Reason: verdict.Unmappable, Detail: `so, "so"`, Address: &address}},
		{Hex: "91", Status: profiler.Failed, Failure: "child died", Instructions: 1, Bytes: 1},
		Row{Line: 7, Text: "z\xff" + strings.Repeat("y", 1000), Rejection: &verdict.Rejection{Reason: verdict.BadHex, Detail: "line 7: no"}}.Rejected(),
	}
	want := [][]string{
		{"hex", "status", "reason", "cycles", "ci_low", "ci_high", "mode", "frontend", "loop_cycles", "loop_ci_low", "loop_ci_high", "instructions", "bytes", "unroll_short", "unroll_long", "samples_kept", "samples_dropped", "pages", "frames", "init", "paper_verdict", "self_forwarding_loads", "detail"},
		{"90", "ok", "", "0.2500", "0.2499", "0.2502", "both", "decode", "0.2600", "0.2590", "0.2610", "1", "1", "128", "512", "72", "0", "0", "0", "", "", "0", "the loop is slower; one; two"},
		{"90c3", "rejected", "control_flow", "", "", "", "unroll", "opcache", "", "", "", "2", "2", "", "", "", "", "", "", "", "", "", "ret leaves the block (instruction 2 at byte 1: ret)"},
		{"488b03", "rejected", "unmappable", "", "", "", "loop", "opcache", "", "", "", "1", "3", "1", "3", "0", "0", "2", "1", "", "", "", `so, "so"`},
		{"91", "error", "", "", "", "", "", "", "", "", "", "1", "1", "", "", "", "", "", "", "", "", "", "child died"},
		{"z\ufffd" + strings.Repeat("y", 196) + "…", "rejected", "bad_hex", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "line 7: no"},
	}
	var out strings.Builder
	w, err := NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != i+2 {
			t.Errorf("%d lines are out after %d results", n, i+1)
		}
	}
	got, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("row %d\n got %q\nwant %q", i, got[i], want[i])
		}
	}
}

type fullDisk struct{ room int }

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, errFull
	}
	d.room -= len(p)
	return len(p), nil
}

func TestWriterReportsAtOnce(t *testing.T) {
	if _, err := NewWriter(&fullDisk{10}); !errors.Is(err, errFull) {
		t.Errorf("header: %v", err)
	}
	w, err := NewWriter(&fullDisk{260})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err = w.Write(profiler.Result{Hex: "90"}); err != nil {
			break
		}
	}
	if !errors.Is(err, errFull) {
		t.Errorf("row: %v", err)
	}
}
