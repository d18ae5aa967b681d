// Package replay compares one execution of a block from a captured state with the program's own.
package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Outcome is the result of replaying a visit.
type Outcome struct {
	Rejection   *verdict.Rejection // why it was not replayed
	Differences []string           // empty: bit-identical to the program
}

// Check replays a visit. An error is the fault of neither block nor state.
func Check(ctx context.Context, p *profiler.Profiler, code []byte, v *state.Visit) (o Outcome, err error) {
	got, err := p.Replay(ctx, code, &v.Before)
	if errors.As(err, &o.Rejection) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.Differences = differences(v, got)
	return o, nil
}

// differences lists where a state differs from the program's state after the visit, each with both values, the
// replay's first.
func differences(v *state.Visit, got *initial.Captured) (list []string) {
	want := &v.After
	differ := func(name string, want, got any) {
		list = append(list, fmt.Sprintf("%s %v, not %v", name, got, want))
	}
	word := func(name string, want, got uint64) {
		if want != got {
			differ(name, fmt.Sprintf("%#x", want), fmt.Sprintf("%#x", got))
		}
	}
	for i := range want.GPR {
		word(asm.Reg(i).String(), want.GPR[i], got.GPR[i])
	}
	word("flags", want.RFlags(), got.RFlags())
	word("mxcsr", uint64(want.MXCSR), uint64(got.MXCSR))
	for i := range want.Opmasks {
		word(fmt.Sprintf("k%d", i), want.Opmasks[i], got.Opmasks[i])
	}
	wantVectors, gotVectors := vectors(want), vectors(got)
	for i := range wantVectors {
		if wantVectors[i] != gotVectors[i] {
			differ(fmt.Sprintf("zmm%d", i), fmt.Sprintf("%#x", wantVectors[i]), fmt.Sprintf("%#x", gotVectors[i]))
		}
	}
	if want.X87 != got.X87 {
		differ("x87", want.X87, got.X87)
	}
	return append(list, pages(v, got)...)
}

func vectors(c *initial.Captured) (all [32][8]uint64) {
	for _, v := range c.Vectors {
		all[v.Reg] = v.Words
	}
	return all
}

// pages lists the first difference in each page of memory.
func pages(v *state.Visit, got *initial.Captured) (list []string) {
	for i := range got.Pages {
		p := &got.Pages[i]
		want := &v.Before.Pages[i]
		if k := slices.IndexFunc(v.After.Pages, func(q initial.Page) bool { return q.Address == p.Address }); k >= 0 {
			want = &v.After.Pages[k]
		}
		for at := range p.Data {
			if p.Data[at] != want.Data[at] {
				list = append(list, fmt.Sprintf("byte at %#x %#x, not %#x", p.Address+uint64(at), p.Data[at], want.Data[at]))
				break
			}
		}
	}
	return list
}
