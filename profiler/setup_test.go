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
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

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
		require.Equal(t, c.name, c.word, frameWord(t, got))
		base := initial.Paper().FSBase
		if c.setup.Init != nil {
			base = moved.FSBase
		}
		if got.Plan.Frames != c.frames || got.Plan.Init.FSBase != base {
			t.Errorf("%s: %d frames, fs base %#x", c.name, got.Plan.Frames, got.Plan.Init.FSBase)
		}
	}
}

// TestNoMapping: without pages the first access ends the block, and a block without accesses runs.
func TestNoMapping(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		hex    string
		reason verdict.Reason
	}{{"90488b03", verdict.SIGSEGV}, {"4801c0", ""}} {
		require.NoError(t, b.ready())
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

// TestOffsetCancels: the nops before the first copy are in both images, so they do not affect the result.
func TestOffsetCancels(t *testing.T) {
	require.Slow(t)
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

// TestManyPages: a block is timed on the largest number of pages, mapped again in each child run.
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

// TestCheck: the same rules check the common fields of options and set-ups.
func TestCheck(t *testing.T) {
	of := func(short, long int) *unroll.Factors { return &unroll.Factors{Short: short, Long: long} }
	for _, c := range []struct {
		s    Setup
		says string // "" is that it can be had
	}{
		{Setup{}, ""},
		{Setup{FrontEnd: Decode}, ""},
		{Setup{FrontEnd: "x"}, `no front end is called "x"`},
		{Setup{Frames: layout.MaxFrames}, ""},
		{Setup{Frames: layout.MaxFrames + 1}, "there are 1 to"},
		{Setup{Frames: -1}, "there are 1 to"},
		{Setup{Unroll: of(0, 2)}, ""},
		{Setup{Unroll: of(-1, 2)}, "-1"},
		{Setup{Unroll: of(2, 2)}, "must exceed"},
		{Setup{Unroll: of(0, 2), Mode: Loop}, "one image alone"},
		{Setup{Mode: Loop, FrontEnd: Decode}, "op cache"},
		{Setup{Mode: Both, FrontEnd: Decode}, ""},
		{Setup{Mode: "x"}, `no mode is called "x"`},
	} {
		for _, err := range []error{c.s.Check(), Options{Mode: c.s.Mode, FrontEnd: c.s.FrontEnd, Frames: c.s.Frames, Unroll: c.s.Unroll}.Check()} {
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: %v, want %q", c.s, err, c.says)
			}
		}
	}
	for _, c := range []struct {
		s  Setup
		ok bool
	}{
		{Setup{CodeOffset: new(0)}, true},
		{Setup{CodeOffset: new(-1)}, false},
		{Setup{CodeOffset: new(layout.PageSize - 1)}, true},
		{Setup{CodeOffset: new(layout.PageSize)}, false},
		{Setup{LeadNops: leastLeadNops}, true},
		{Setup{LeadNops: leastLeadNops - 1}, false},
		{Setup{LeadNops: mostLeadNops}, true},
		{Setup{LeadNops: mostLeadNops + 1}, false},
	} {
		if err := c.s.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
	if _, err := New(t.Context(), Options{Mode: "x"}); err == nil {
		t.Error("New accepts any mode")
	}
	b := openBench(t) // one image alone is not timed as a loop, whichever of the two asks for that
	b.opts = Options{Mode: Loop}.WithDefaults()
	if _, err := b.profile(Block{Code: []byte{0x90}, Setup: Setup{Unroll: of(0, 8)}}); err == nil || !strings.Contains(err.Error(), "one image alone") {
		t.Errorf("mode loop: %v", err)
	}
}
