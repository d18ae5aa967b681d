package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Blocks prepares blocks for a comparison. It measures each once to find an initial state that suits all, except what
// each sets itself, and returns those results as first. An error about one block is a *SideError.
func Blocks(ctx context.Context, p pool.Profiler, blocks []profiler.Block) (measures []Measure, first []profiler.Result, err error) {
	first = make([]profiler.Result, len(blocks))
	for i, b := range blocks {
		b.Setup.Tolerate = tolerated()
		if first[i], err = pool.Number(ctx, p, b); err != nil {
			return nil, first, &SideError{Name(i), err}
		}
	}
	// All sides get equal data: if one needs a state, all get it.
	init, own := first[0].Init, false
	for i, b := range blocks {
		init = latest(init, first[i].Init)
		own = own || b.Setup.Set.String() != blocks[0].Setup.Set.String()
	}
	for i, b := range blocks {
		if first[i].Init.Name == init.Name && (own || first[i].Init.Set == init.Set) {
			continue
		}
		b.Setup.Tolerate = tolerated()
		if b.Setup.Init = &init; own {
			b.Setup.Init = unset(init)
		}
		if first[i], err = pool.Number(ctx, p, b); err != nil {
			return nil, first, &SideError{Name(i), err}
		}
	}
	for i, b := range blocks {
		init := init
		if own {
			init = first[i].Init
		}
		measures = append(measures, func(ctx context.Context, l Layout) (float64, error) {
			setup := l.setup(init)
			setup.Address, setup.Branch = b.Setup.Address, b.Setup.Branch
			r, err := pool.Number(ctx, p, profiler.Block{Code: b.Code, Setup: setup})
			if err == nil && !slices.EqualFunc(r.Inner, first[i].Inner, sameWay) {
				err = &verdict.Rejection{Reason: verdict.ControlFlow, Detail: "in this layout its inner branches go another way"}
			}
			if err == nil && r.Impossible != "" {
				err = &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf("%.3f cycles are fewer than the core can do (%s)", r.Cycles, r.Impossible)}
			}
			return r.Cycles, err
		})
	}
	return measures, first, nil
}

func sameWay(a, b profiler.BranchedReport) bool {
	return a.Offset == b.Offset && (a.Taken > 0) == (b.Taken > 0)
}

// unset returns one of bbprof's states before anything is set.
func unset(init initial.State) *initial.State {
	named, _ := initial.Named(init.Name) // it is one of them
	return &named
}

// setup converts a layout for the profiler. All registers and memory words are pointers and move together, so equal
// ones stay equal; a register of 0 stays 0. In a spread layout each moves separately and has its own page.
func (l Layout) setup(init initial.State) profiler.Setup {
	offset := l.Start
	by := func(pointer int) uint64 {
		data := uint64(l.Data)
		if l.Apart != nil {
			data = uint64(l.Apart[pointer])
		}
		if init.Name == divisible {
			data &^= 0xff // the low byte is a divisor and must not change
		}
		if l.Apart == nil {
			return data
		}
		if pointer == int(asm.RBP) {
			pointer = int(asm.RSP)
		}
		return data + uint64(pointer)*apart
	}
	for r := range init.GPR {
		if init.GPR[r] != 0 {
			init.GPR[r] += by(r)
		}
	}
	init.Fill += by(len(init.GPR))
	tolerate := tolerated()
	if l.Apart != nil { // spread layouts are meant to alias sometimes
		tolerate = append(tolerate, verdict.Alias4K, verdict.AliasFrame)
	}
	return profiler.Setup{CodeOffset: &offset, Init: &init, Tolerate: tolerate}
}

// apart exceeds the distance of any two registers of an initial state.
const apart = 1 << 22

// tolerated lists the reasons that can reject an undisturbed block after timing. A layout in which it has two modes, or
// its copies do not take equal time, counts like any other: dropping it would select layouts by outcome.
func tolerated() []verdict.Reason { return []verdict.Reason{verdict.Unstable, verdict.Nonlinear} }

// divisible is the initial state for divisions: rdx is 0, and ax / cl fits in 8 bits.
const divisible = "divisible"

// latest returns the one of two states that the profiler tries later; of one state, the one with registers moved.
func latest(a, b initial.State) initial.State {
	inits := initial.States()
	at := func(x initial.State) int {
		return slices.IndexFunc(inits, func(i initial.State) bool { return i.Name == x.Name })
	}
	if cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(len(a.Set), len(b.Set))) >= 0 {
		return a
	}
	return b
}
