package profiler

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

func TestSetupCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Setup
		ok   bool
	}{
		{"zero", Setup{}, true},
		{"first byte", Setup{CodeOffset: new(0)}, true},
		{"last byte", Setup{CodeOffset: new(layout.PageSize - 1)}, true},
		{"next page", Setup{CodeOffset: new(layout.PageSize)}, false},
		{"page before", Setup{CodeOffset: new(-1)}, false},
		{"all frames", Setup{Frames: layout.MaxFrames}, true},
		{"one frame more", Setup{Frames: layout.MaxFrames + 1}, false},
		{"fewest nops", Setup{LeadNops: leastLeadNops}, true},
		{"one fewer", Setup{LeadNops: leastLeadNops - 1}, false},
		{"most nops", Setup{LeadNops: mostLeadNops}, true},
		{"one nop more", Setup{LeadNops: mostLeadNops + 1}, false},
		{"decoders", Setup{FrontEnd: Decode}, true},
		{"no front end", Setup{FrontEnd: "x"}, false},
		{"1,2", Setup{Unroll: &unroll.Factors{Short: 1, Long: 2}}, true},
		{"0,2", Setup{Unroll: &unroll.Factors{Short: 0, Long: 2}}, true},
		{"0,2 in a loop", Setup{Unroll: &unroll.Factors{Short: 0, Long: 2}, Mode: Loop}, false},
		{"-1,2", Setup{Unroll: &unroll.Factors{Short: -1, Long: 2}}, false},
		{"2,2", Setup{Unroll: &unroll.Factors{Short: 2, Long: 2}}, false},
	} {
		if err := c.s.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestSetupAgainstOptions: one image alone is not timed as a loop, whichever of the two asks for that.
func TestSetupAgainstOptions(t *testing.T) {
	b := openBench(t)
	b.opts = Options{Mode: Loop}.WithDefaults()
	_, err := b.profile(Block{Code: []byte{0x90}, Setup: Setup{Unroll: &unroll.Factors{Short: 0, Long: 8}}})
	if err == nil || !strings.Contains(err.Error(), "one image alone") {
		t.Errorf("mode loop: %v", err)
	}
}

// TestSetupsInTurn: one session measures in one set-up after the other, and each gets its own.
func TestSetupsInTurn(t *testing.T) {
	code := unhex(t, "f20f104308"+"f20f58c0"+"f20f1100") // as in TestSubnormals
	r := prepared(t, Options{}, code)
	moved := initial.Paper()
	moved.GPR[asm.RBX] += layout.PageSize
	moved.FSBase += layout.PageSize
	for _, c := range []struct {
		name   string
		setup  Setup
		word   uint64
		frames int
	}{
		{"default", Setup{}, 0, 1},
		{"subnormals", Setup{NoFTZ: true}, 2 * 0x12345600, 1},
		{"default again", Setup{}, 0, 1},
		{"the load's page on a frame of its own, the first", Setup{Init: &moved, Frames: 2, NoFTZ: true}, 0x12345600, 2},
		{"both on one", Setup{Init: &moved, Frames: 1, Tolerate: []verdict.Reason{verdict.AliasFrame}}, 0, 1},
	} {
		got := preparedIn(t, r.s, Block{Code: code, Setup: c.setup})
		if word := frameWord(t, got); word != c.word {
			t.Errorf("%s: %#x, want %#x", c.name, word, c.word)
		}
		base := initial.Paper().FSBase
		if c.setup.Init != nil {
			base = moved.FSBase
		}
		if got.Plan.Frames != c.frames || got.Plan.Init.FSBase != base {
			t.Errorf("%s: %d frames, fs base %#x", c.name, got.Plan.Frames, got.Plan.Init.FSBase)
		}
	}
}

// TestNoMapping: without pages the first access is the end, and what accesses nothing runs.
func TestNoMapping(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		hex    string
		reason verdict.Reason
	}{{"90488b03", verdict.SIGSEGV}, {"4801c0", ""}} {
		if err := b.ready(); err != nil {
			t.Fatal(err)
		}
		_, err := b.prepareBlock(Block{Code: unhex(t, c.hex), Setup: Setup{NoMapping: true}})
		var rejection *verdict.Rejection
		errors.As(err, &rejection)
		switch {
		case err == nil && c.reason == "":
		case rejection == nil || rejection.Reason != c.reason || rejection.Inst == nil || rejection.Inst.Index != 1:
			t.Errorf("%s: %v", c.hex, err)
		}
	}
}

// TestOffsetCancels: the nops before the first copy are in both images and so in no result.
func TestOffsetCancels(t *testing.T) {
	p := start(t, Options{})
	for _, offset := range []int{0, 1, 63, 64, 4095} {
		lasting(t, func() string {
			r, err := p.Profile(require.Context(t), Block{Code: unhex(t, "480fafc0"), Setup: Setup{CodeOffset: &offset}})
			require.Measure(t, err)
			switch {
			case r.Status != OK:
				t.Logf("offset %d: %s %s", offset, r.Reason, r.Failure)
			case math.Abs(r.Cycles-3) > 0.015*3: // imul r64, r64 on every core since Nehalem (uops.info)
				return fmt.Sprintf("offset %d: %.3f cycles for an imul", offset, r.Cycles)
			}
			return ""
		})
	}
}

// TestManyPages: a block is timed on as many pages as a run may touch, mapped again in each child run.
func TestManyPages(t *testing.T) {
	p := start(t, Options{Budget: 300 * time.Millisecond})
	r, err := p.Profile(require.Context(t), Block{
		Code: unhex(t, "488b03"+"4881c300100000"), // mov rax, [rbx]; add rbx, 4096
		Setup: Setup{Unroll: &unroll.Factors{Short: mapping.MaxPages / 2, Long: mapping.MaxPages}, Frames: 1,
			Tolerate: []verdict.Reason{verdict.AliasFrame, verdict.L1DMiss, verdict.Nonlinear, verdict.Unstable}},
	})
	switch {
	case err != nil:
		t.Fatal(err)
	case r.Reason.Noise(), r.Reason == verdict.Timeout: // of a second for so many faults
		require.Skip(t, require.Idle, "%v", r.Rejection)
	case r.Status != OK || r.Pages != mapping.MaxPages:
		t.Errorf("%s: %v%s, %d pages", r.Status, r.Rejection, r.Failure, r.Pages)
	}
}

// A speed below nothing is no speed: the shorter image was slow by itself. `8323ef5b` was accepted with -2.065 cycles
// in 7 of 24 layouts, and -0.019 in the mean.
func TestNegativeSpeeds(t *testing.T) {
	for _, c := range []struct {
		lowest float64
		ok     bool
	}{{-2.065, false}, {0, false}, {0.001, true}} {
		speeds := []Speed{{Cycles: c.lowest, Layouts: []int{1, 6}}, {Cycles: 1.017, Layouts: []int{0, 2}}}
		if r := (job{}).unsteady(timing.Timed{Estimate: stat.Estimate{Value: 1}}, speeds); (r == nil) != c.ok {
			t.Errorf("a speed of %g cycles: %v", c.lowest, r)
		}
	}
}
