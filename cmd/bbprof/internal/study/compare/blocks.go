package compare

import (
	"cmp"
	"context"
	"slices"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Profiler is what is needed of profiler.Profiler.
type Profiler interface {
	Profile(context.Context, profiler.Block) (profiler.Result, error)
}

// Blocks makes two blocks ready to be compared: both are measured once, which finds the initial
// state that both run with, and the results tell of them. An error is a *SideError if it is about
// one of them.
func Blocks(ctx context.Context, p Profiler, a, b []byte) (measure [2]Measure, first [2]profiler.Result, err error) {
	code := [2][]byte{a, b}
	for i, c := range code {
		if first[i], err = profile(ctx, p, profiler.Block{Code: c, Setup: profiler.Setup{Tolerate: tolerated()}}); err != nil {
			return measure, first, &SideError{sides[i], err}
		}
	}
	// Equal data for both: the state that one needed is given to the other.
	init := latest(first[0].Init, first[1].Init)
	for i, c := range code {
		if first[i].Init.Name == init.Name {
			continue
		}
		if first[i], err = profile(ctx, p, profiler.Block{Code: c, Setup: profiler.Setup{Init: &init, Tolerate: tolerated()}}); err != nil {
			return measure, first, &SideError{sides[i], err}
		}
	}
	for i, c := range code {
		measure[i] = func(ctx context.Context, l Layout) (float64, error) {
			r, err := once(ctx, p, profiler.Block{Code: c, Setup: l.setup(init)})
			return r.Cycles, err
		}
	}
	return measure, first, nil
}

var sides = [2]string{"a", "b"}

// SideError is an error of one side.
type SideError struct {
	Side string // a or b
	Err  error
}

func (e *SideError) Error() string { return "-" + e.Side + ": " + e.Err.Error() }
func (e *SideError) Unwrap() error { return e.Err }

// setup is a layout as the profiler has it. Registers and memory words are pointers alike, so all
// of them move and what was equal stays so; a register that is 0 is meant to be.
func (l Layout) setup(init initial.State) profiler.Setup {
	offset, data := l.Code(), uint64(l.Data)
	if init.Name == divisible {
		data &^= 0xff // the low byte, a divisor, must stay
	}
	for r := range init.GPR {
		if init.GPR[r] != 0 {
			init.GPR[r] += data
		}
	}
	init.Fill += data
	return profiler.Setup{CodeOffset: &offset, Init: &init, Tolerate: tolerated()}
}

// tolerated are the reasons that are found in the samples of an undisturbed block. A layout in which
// it has two speeds, or in which copies do not all take the same, is a layout all the same; to leave
// it out would be to choose layouts by what was measured there.
func tolerated() []verdict.Reason { return []verdict.Reason{verdict.Unstable, verdict.Nonlinear} }

// divisible is the state that lets divisions through: rdx is 0, and ax / cl fits 8 bits.
const divisible = "divisible"

// latest is the state that is tried later.
func latest(a, b initial.State) initial.State {
	inits := initial.States()
	at := func(x initial.State) int {
		return slices.IndexFunc(inits, func(i initial.State) bool { return i.Name == x.Name })
	}
	if cmp.Compare(at(a), at(b)) >= 0 {
		return a
	}
	return b
}

// profile is one measurement, tried again where other work disturbed it.
func profile(ctx context.Context, p Profiler, b profiler.Block) (r profiler.Result, err error) {
	_, err = patient(ctx, func(ctx context.Context, _ Layout) (float64, error) {
		r, err = once(ctx, p, b)
		return r.Cycles, err
	}, Layout{})
	return r, err
}

// once is one measurement, with whatever kept it from a number as the error.
func once(ctx context.Context, p Profiler, b profiler.Block) (profiler.Result, error) {
	r, err := p.Profile(ctx, b)
	if err == nil {
		err = r.Err()
	}
	return r, err
}
