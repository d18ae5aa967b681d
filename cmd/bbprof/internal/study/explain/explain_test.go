package explain

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// core is a made-up core: a block's cycles in a set-up, and what its addresses imply.
type core struct {
	aliasing, sharing, splitting, aligned, subnormal, l1i, decoders, equal, operand float64 // cost in cycles

	// layout is a layout's cost, by the first copy's byte in its line, the nops before it, and the rename phase.
	layout func(byte, nops, offset int) float64

	noise    float64 // standard deviation, as a share
	disturb  int     // every disturb-th measurement is disturbed
	random   *rand.Rand
	measured int
}

// Profile uses rdi and rbx as pointers: a store at rbx and a load at rdi.
func (c *core) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	c.measured++
	if c.disturb > 0 && c.measured%c.disturb == 0 {
		return profiler.Result{Status: profiler.Rejected, Reason: verdict.Unstable}, nil
	}
	init := *cmp.Or(b.Setup.Init, new(initial.Paper()))
	if b.Setup.NoFTZ {
		init.MXCSR = initial.DefaultMXCSR
	}
	factors := cmp.Or(b.Setup.Unroll, &unroll.Factors{Short: 128, Long: 512})
	store, load := init.GPR[asm.RBX], init.GPR[asm.RDI]
	p := invariants.Prediction{Loads: 1, Stores: 1}
	cycles, pages, self := 10.0, 1, 0
	if store>>12 != load>>12 {
		pages = 2
		switch frames := max(b.Setup.Frames, 1); {
		case store&0xfff != load&0xfff:
		case frames == 1:
			p.AliasFrame = 2
			cycles += c.sharing
		default:
			p.Alias4K, p.AliasStores = 1, 1
			cycles += c.aliasing
		}
	} else if store == load {
		p.Forwarded, self = 1, 1
		cycles += c.equal
	}
	if load%64 > 56 {
		p.Splits++
		cycles += c.splitting
	}
	if b.Setup.CodeOffset != nil && *b.Setup.CodeOffset%16 != 0 {
		cycles -= c.aligned
	}
	if init.MXCSR == initial.DefaultMXCSR {
		cycles += c.subnormal
	}
	if init.GPR[asm.RCX] == 0 { // one of the values that explain tries
		cycles += c.operand
	}
	const l1i = 32 << 10
	switch bytes := factors.Long * len(b.Code); {
	case bytes > l1i:
		p.L1IMisses = 1
		cycles += c.l1i + c.decoders
	case bytes > l1i/4 || b.Setup.FrontEnd == profiler.Decode:
		cycles += c.decoders
	}
	layouts := c.layouts(b.Setup, cycles)
	if layouts != nil {
		cycles = 0
		for _, l := range layouts {
			cycles += l.Cycles / float64(len(layouts))
		}
	}
	cycles *= 1 + c.noise*c.random.NormFloat64()
	return profiler.Result{
		LayoutCycles:   layouts,
		SelfForwarding: self,
		Status:         profiler.OK, Cycles: cycles, CILow: cycles * 0.99, CIHigh: cycles * 1.01,
		Ran:  profiler.Ran{UnrollShort: factors.Short, UnrollLong: factors.Long, Pages: pages, Frames: min(pages, max(b.Setup.Frames, 1))},
		Init: init, Predicted: &p,
		Host: &profiler.HostReport{CPU: profiler.CPU{DispatchWidth: 6,
			FrontEnd: unroll.FrontEnd{L1I: l1i, OpCache: unroll.OpCache{Lines: 256, OpsPerLine: 6, Window: 32}}}},
	}, nil
}

// layouts returns the cycles in each layout; nil if layouts do not matter.
func (c *core) layouts(s profiler.Setup, cycles float64) (all []profiler.LayoutCycles) {
	if c.layout == nil {
		return nil
	}
	for n := range profiler.Layouts {
		l := timing.Layout(n)
		at := l.Place() * timing.PlaceBytes
		if s.CodeOffset != nil {
			if at = *s.CodeOffset % 64; l.Place() > 0 {
				break
			}
		}
		nops := cmp.Or(s.LeadNops, (at+8)/9) // of at most nine bytes each
		all = append(all, profiler.LayoutCycles{Layout: n, Cycles: (cycles + c.layout(at, nops, l.Offset())) * (1 + c.noise*c.random.NormFloat64())})
	}
	return all
}

// mov [rbx], rcx; mov rdx, [rdi]; addsd xmm0, xmm1
const pair = "48890b 488b17 f20f58c1"

// pointers sets the store's and the load's address, and the number of frames.
func pointers(store, load uint64, frames int) profiler.Setup {
	init := initial.Paper()
	init.GPR[asm.RBX], init.GPR[asm.RDI] = store, load
	return profiler.Setup{Init: &init, Frames: frames, CodeOffset: new(0)}
}

func plan(seed uint64) experiment.Plan { return experiment.Plan{Rounds: DefaultRounds, Seed: seed} }

// TestExplain: on a made-up core each cause is named, and nothing else, however much of it the set-up has.
func TestExplain(t *testing.T) {
	odd := func(n int) float64 { return float64(n % 2) }
	aliased, shared := pointers(0x10000, 0x13000, 16), pointers(0x10000, 0x13000, 1)
	split, harmless := pointers(0x10000, 0x1013d, 1), pointers(0x10000, 0x10100, 1)
	computed, many, more := harmless, harmless, harmless
	computed.NoFTZ = true
	many.Unroll = &unroll.Factors{Short: 1000, Long: 4000}
	more.Unroll = &unroll.Factors{Short: 500, Long: 2000}
	for _, c := range []struct {
		name  string
		core  core
		setup profiler.Setup
		want  []string
	}{
		{"4K aliasing", core{aliasing: 3}, aliased, []string{"4K aliasing"}},
		{"aliasing that costs nothing", core{}, aliased, nil},
		{"frame sharing", core{sharing: 3}, shared, []string{"frame sharing"}},
		{"sharing that makes faster", core{sharing: -3}, shared, []string{"frame sharing"}},
		{"sharing that costs nothing", core{aliasing: 0, splitting: 5, subnormal: 5, l1i: 5, decoders: 5}, shared, nil},
		{"equal addresses", core{equal: 3}, pointers(0x10000, 0x10000, 16), []string{"equal addresses"}},
		{"equal addresses that cost nothing", core{}, pointers(0x10000, 0x10000, 16), nil},
		{"splits", core{splitting: 1}, split, []string{"line splits"}},
		{"splits that cost nothing", core{aliasing: 5, sharing: 5}, split, nil},
		{"code alignment", core{aligned: 1}, harmless, []string{"code alignment"}},
		{"subnormals", core{subnormal: 1}, computed, []string{"subnormals"}},
		{"subnormals that cost nothing", core{}, computed, nil},
		{"subnormals that are flushed", core{subnormal: 5}, harmless, nil},
		{"operand values", core{operand: 1}, harmless, []string{"operand values"}},
		{"L1I", core{l1i: 1}, many, []string{"L1I residency"}},
		{"decoders, beyond L1I", core{decoders: 1}, many, []string{"op cache residency"}},
		{"both", core{l1i: 1, decoders: 1}, many, []string{"L1I residency", "op cache residency"}},
		{"decoders", core{decoders: 1, l1i: 5}, more, []string{"op cache residency"}},
		{"everything, and nothing of it there", core{aliasing: 5, sharing: 5, splitting: 5, subnormal: 5, l1i: 5, decoders: 5}, harmless, nil},
		{"two causes", core{splitting: 1, aligned: 1}, split, []string{"line splits", "code alignment"}},
		{"1 % by layout", core{layout: func(_, nops, _ int) float64 { return 0.1 * odd(nops) }}, harmless, nil},
		{"two slots a copy", core{layout: func(_, nops, phase int) float64 { return odd(nops + phase) }}, harmless, []string{"rename phase"}},
		{"three", core{layout: func(_, nops, phase int) float64 { return float64((nops + phase) % 3) }}, harmless, []string{"rename phase"}},
		{"a slow slot of six", core{layout: func(_, nops, phase int) float64 { return float64((nops + phase) % 6 / 5) }}, harmless,
			[]string{"rename phase"}},
		{"place", core{layout: func(at, _, _ int) float64 { return float64(at / 32) }}, harmless, []string{"code alignment"}},
		{"place and slots", core{layout: func(at, nops, phase int) float64 { return float64(at/32) + 0.7*odd(nops+phase) }}, harmless,
			[]string{"code alignment", "rename phase"}},
	} {
		for seed := range uint64(5) {
			m := c.core
			m.noise, m.disturb, m.random = 0.002, 11, rand.New(rand.NewPCG(seed, 0))
			e := require.Get(Explain(context.Background(), &m, require.Hex(t, pair), c.setup, plan(seed)))(t)
			if got := experiment.Confirmed(e.Findings); !slices.Equal(got, c.want) {
				t.Errorf("%s, seed %d: %q, want %q: %+v", c.name, seed, got, c.want, e.Findings)
				break
			}
		}
	}
}

// scripted is a profiler given by a function.
type scripted func(profiler.Block) (profiler.Result, error)

func (f scripted) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) { return f(b) }

// TestUntested: a block that aliases wherever its pointers are is not tested for it.
func TestUntested(t *testing.T) {
	stuck := scripted(func(b profiler.Block) (profiler.Result, error) {
		r, err := (&core{random: rand.New(rand.NewPCG(0, 0))}).Profile(context.Background(), b)
		r.Predicted.Alias4K, r.Predicted.AliasStores = 1, 1
		return r, err
	})
	e := require.Get(Explain(context.Background(), stuck, require.Hex(t, pair), pointers(0x10000, 0x13000, 16), plan(0)))(t)
	if f := e.Findings[0]; f.Outcome != experiment.Untested || f.Change == "" {
		t.Errorf("%+v", f)
	}
}

func TestErrors(t *testing.T) {
	for _, want := range []error{&verdict.HostError{Missing: "something"}, nil} {
		for _, at := range []int{0, 1, 30} {
			m := &core{random: rand.New(rand.NewPCG(0, 0))}
			failing := scripted(func(b profiler.Block) (profiler.Result, error) {
				if m.measured >= at {
					return profiler.Result{Status: profiler.Failed, Failure: "lost"}, want
				}
				return m.Profile(context.Background(), b)
			})
			_, err := Explain(context.Background(), failing, require.Hex(t, pair), pointers(0x10000, 0x13000, 16), plan(0))
			if err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("at %d: %v", at, err)
			}
		}
	}
	rejecting := scripted(func(profiler.Block) (profiler.Result, error) {
		return profiler.Result{Status: profiler.Rejected, Reason: verdict.SIGFPE}, nil
	})
	if e, err := Explain(context.Background(), rejecting, require.Hex(t, pair), profiler.Setup{}, plan(0)); err != nil ||
		e.Base.Reason != verdict.SIGFPE || len(e.Findings) > 0 {
		t.Errorf("%+v %v", e, err)
	}
}

// TestDiffer: two layouts at either end do not count.
func TestDiffer(t *testing.T) {
	for want, of := range map[float64][][]float64{
		0:   {nil, {1, 2, 3, 4}, {0, 0, 0, 1, 1, 1}},
		0.5: {{9, 1, 1, 2, 9, 3}, {9, 1, 2, 2, 9, 3}},
	} {
		for _, cycles := range of {
			var layouts []profiler.LayoutCycles
			for i, c := range cycles {
				layouts = append(layouts, profiler.LayoutCycles{Layout: i, Cycles: c})
			}
			require.Equal(t, cycles, want, differ(layouts))
		}
	}
}

// TestPage: the example of docs/explain.md has each hypothesis, in their order, up to an ellipsis for those of the front end.
func TestPage(t *testing.T) {
	page := require.Get(os.ReadFile("../../../../../docs/explain.md"))(t)
	at := 0
	for _, h := range hypotheses[:len(hypotheses)-2] {
		row := regexp.MustCompile(`(?m)^` + h.name + ` {2,}\w`).FindIndex(page[at:])
		if row == nil {
			t.Fatalf("%s is not there, or not in its place", h.name)
		}
		at += row[1]
	}
	if !regexp.MustCompile(`^.*\n( .*\n)*…\n`).Match(page[at:]) {
		t.Error("after the last one there is no ellipsis")
	}
}
