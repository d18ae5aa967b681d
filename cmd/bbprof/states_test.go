package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// scripted is what a profiler makes of blocks.
type scripted func(profiler.Block) (profiler.Result, error)

func (f scripted) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	r, err := f(b)
	r.Hex = hex.EncodeToString(b.Code)
	return r, err
}

// failsAt takes two cycles for each block, and fails on those that begin with the first byte; it rejects those of
// the second, and at those of the third the host fails.
func failsAt(failed, rejected, host byte) scripted {
	return func(b profiler.Block) (profiler.Result, error) {
		switch b.Code[0] {
		case failed:
			return profiler.Result{Status: profiler.Failed, Failure: "the child is gone"}, nil
		case rejected:
			r := &verdict.Rejection{Reason: verdict.SIGFPE}
			return profiler.Result{Status: profiler.Rejected, Reason: r.Reason, Rejection: r}, nil
		case host:
			return profiler.Result{}, &verdict.HostError{Missing: "an idle CPU"}
		}
		return profiler.Result{Status: profiler.OK, Cycles: 2, CILow: 1.9, CIHigh: 2.1, Predicted: &invariants.Prediction{}}, nil
	}
}

// TestStatesEnd: a block that bbprof fails on is one of the list, and what a late host error leaves is written before it.
func TestStatesEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.states")
	file, err := states.Create(name, states.About{})
	if err != nil {
		t.Fatal(err)
	}
	for i, digits := range []string{"90", "91", "92", "93"} {
		v := states.Visit{Entry: states.Entry{Hex: digits, Address: uint64(i)}, Before: initial.Captured{State: initial.Paper()}}
		if err := file.Add(&v); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		p       scripted
		want    int
		blocks  int
		failed  int
		partial bool
		stderr  string
	}{
		{"failures", failsAt(0x91, 0x92, 0), exitOK, 4, 1, false, "bbprof: " + name + "#2: the child is gone\n"},
		{"the host", failsAt(0x91, 0x92, 0x93), exitHost, 3, 1, true, "an idle CPU"},
		{"the host at once", failsAt(0, 0, 0x90), exitHost, 0, 0, false, "an idle CPU"},
	} {
		var stdout, stderr strings.Builder
		std := streams{nil, &stdout, &stderr}
		s := &comparingStates{files: []string{name}, out: output{json: true}}
		summary, err := s.compare(t.Context(), c.p, std)
		code := finish("states", s.finish(std, summary, err), std)
		var got struct {
			Blocks, Failed int
			Incomplete     bool
		}
		if c.blocks > 0 {
			err = json.Unmarshal([]byte(stdout.String()), &got)
		}
		if code != c.want || err != nil && c.blocks > 0 || got.Blocks != c.blocks || got.Failed != c.failed || got.Incomplete != c.partial || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, code, c.want, stdout.String(), stderr.String())
		}
	}
}
