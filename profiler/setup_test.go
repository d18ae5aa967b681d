package profiler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
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
		{"decoders", Setup{FrontEnd: Decode}, true},
		{"no front end", Setup{FrontEnd: "x"}, false},
		{"1,2", Setup{Unroll: &unroll.Factors{Short: 1, Long: 2}}, true},
		{"0,2", Setup{Unroll: &unroll.Factors{Short: 0, Long: 2}}, false},
		{"2,2", Setup{Unroll: &unroll.Factors{Short: 2, Long: 2}}, false},
	} {
		if err := c.s.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestCodeOffset: both images' first copies stand where the set-up says, look after look, in
// both modes, with and without what enters the decoders.
func TestCodeOffset(t *testing.T) {
	b := openBench(t)
	insts, err := asm.Decode(unhex(t, "4801c0c3")[:3])
	if err != nil {
		t.Fatal(err)
	}
	for _, frontEnd := range FrontEnds() {
		for _, loops := range []bool{false, true} {
			for _, offset := range []int{0, 1, 9, 63, 64, 1000, 4095} {
				r := b.newRun(Block{Code: unhex(t, "4801c0"), Setup: Setup{CodeOffset: &offset, FrontEnd: frontEnd}})
				r.insts, r.factors, r.loops = insts, unroll.Factors{Short: 16, Long: 48}, loops
				r.loop = unroll.Loop{Copies: 16, Turns: unroll.Factors{Short: 1, Long: 3}, Counter: unroll.FreeCounter(insts)}
				r.plan.Init = initial.Paper()
				for look := range 2 {
					if err := r.build(r.images, uint64(look)*layoutStep); err != nil {
						t.Fatal(err)
					}
					for _, im := range []unroll.Image{r.short, r.long} {
						if got := int(im.First % layout.PageSize); got != offset {
							t.Errorf("%s, loop %v: first copy of %d at %d, want %d", frontEnd, loops, im.Copies, got, offset)
						}
						if at := im.First - im.At; !bytes.HasPrefix(im.Code[at:], insts[0].Bytes) {
							t.Errorf("no copy at First: % x", im.Code[at:at+3])
						}
					}
				}
			}
		}
	}
}

// TestSetupsInTurn: one session measures in one set-up after the other, and each gets its own.
func TestSetupsInTurn(t *testing.T) {
	code := unhex(t, "f20f104308"+"f20f58c0"+"f20f1100") // as in TestSubnormals
	r := prepared(t, Options{}, code)
	moved := initial.Paper()
	moved.GPR[asm.RBX] += layout.PageSize
	moved.FSBase = 1 // not looked at
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
		got := preparedIn(t, r.session, Block{Code: code, Setup: c.setup})
		if word := frameWord(t, got); word != c.word {
			t.Errorf("%s: %#x, want %#x", c.name, word, c.word)
		}
		if got.result.Frames != c.frames || got.result.Init.FSBase != initial.Paper().FSBase {
			t.Errorf("%s: %d frames, fs base %#x", c.name, got.result.Frames, got.result.Init.FSBase)
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
		err := b.ready()
		r := b.newRun(Block{Code: unhex(t, c.hex), Setup: Setup{NoMapping: true}})
		for _, step := range []func() error{r.decode, r.refuse, r.choose, r.prepare} {
			if err == nil {
				err = step()
			}
		}
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
			r, err := p.Profile(context.Background(), Block{Code: unhex(t, "480fafc0"), Setup: Setup{CodeOffset: &offset}})
			switch {
			case err != nil:
				t.Fatal(err)
			case r.Status != OK:
				t.Logf("offset %d: %s %s", offset, r.Reason, r.Failure)
			case math.Abs(r.Cycles-3) > 0.015*3: // imul r64, r64 on every core since Nehalem (uops.info)
				return fmt.Sprintf("offset %d: %.3f cycles for an imul", offset, r.Cycles)
			}
			return ""
		})
	}
}

// TestManyPages: a block is timed on as many pages as a run may touch, mapped anew in each stay.
func TestManyPages(t *testing.T) {
	p := start(t, Options{Budget: 300 * time.Millisecond})
	r, err := p.Profile(context.Background(), Block{
		Code: unhex(t, "488b03"+"4881c300100000"), // mov rax, [rbx]; add rbx, 4096
		Setup: Setup{Unroll: &unroll.Factors{Short: maxPages / 2, Long: maxPages}, Frames: 1,
			Tolerate: []verdict.Reason{verdict.AliasFrame, verdict.L1DMiss, verdict.Nonlinear, verdict.Unstable}},
	})
	switch {
	case err != nil:
		t.Fatal(err)
	case r.Reason.Noise(), r.Reason == verdict.Timeout: // of a second for so many faults
		require.Skip(t, require.Idle, "%v", r.Rejection)
	case r.Status != OK || r.Pages != maxPages:
		t.Errorf("%s: %v%s, %d pages", r.Status, r.Rejection, r.Failure, r.Pages)
	}
}
