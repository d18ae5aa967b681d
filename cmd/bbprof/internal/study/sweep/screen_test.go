package sweep

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// watched tells the script which set-up is measured, and counts profilers closed.
type watched struct {
	measure.Profiler
	before func(profiler.Setup)
	close  func()
}

func (w watched) Close() { w.close() }

func (w watched) Profile(ctx context.Context, b profiler.Block) (profiler.Result, error) {
	w.before(b.Setup)
	return w.Profiler.Profile(ctx, b)
}

// TestScreenEveryEvent: with four counters every event is screened, and the one that follows the cycles is found.
func TestScreenEveryEvent(t *testing.T) {
	ctx := context.Background()
	aliased := uint64(0)
	k := pmutest.New(4)
	k.Opens = func(a pmu.Attr) error {
		if a.Type == pmu.TypeHWCache && a.Config&0xff == 6 { // node-…
			return syscall.ENOENT
		}
		return nil
	}
	open := simulated.NewProfiler.(func(context.Context, profiler.Options, simulated.Machine) (*profiler.Profiler, error))
	options := profiler.Options{Clock: profiler.PerfClock}
	machine := simulated.Skylake(k, func() uint64 { return 6 + 3*aliased }, func(e pmu.Event) uint64 {
		if strings.HasPrefix(e.Name, "LD_BLOCKS_PARTIAL") {
			return aliased
		}
		return 5
	})
	p, err := open(t.Context(), options, machine)
	var missing *verdict.HostError
	if errors.As(err, &missing) && strings.Contains(missing.Missing, "CPU") {
		require.Measure(t, err)
	}
	require.NoError(t, err)
	events, err := p.AllEvents(ctx)
	if err != nil || len(events) < 30 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	require.NoError(t, p.CanCount(ctx, "instructions"))
	if err := p.CanCount(ctx, "frobnications"); !errors.As(err, new(*profiler.EventError)) {
		t.Error(err)
	}
	if err := p.CanCount(ctx, "node-loads"); !errors.As(err, &missing) {
		t.Error(err)
	}
	p.Close()
	f := require.Get(Of("distance", profiler.Setup{Frames: 16, Tolerate: []verdict.Reason{verdict.Alias4K}},
		[]asm.Reg{asm.RBX, asm.RDI}, []int{4032, 4096, 4160, 8128, 8192}))(t)
	opened, closed, done := 0, 0, 0
	block := []byte{0x48, 0x89, 0x0b, 0x48, 0x8b, 0x17} // mov [rbx], rcx; mov rdx, [rdi]
	columns, err := Screen(ctx, func(some []profiler.Event) (measure.ProfileCloser, error) {
		o := options
		for _, e := range some {
			o.Events = append(o.Events, e.By)
		}
		p, err := open(t.Context(), o, machine)
		if err != nil {
			return nil, err
		}
		opened++
		aliases := func(s profiler.Setup) {
			aliased = 0
			if (s.Init.GPR[asm.RDI]-s.Init.GPR[asm.RBX])%4096 == 0 {
				aliased = 1
			}
		}
		return watched{p, aliases, func() { closed++; p.Close() }}, nil
	}, block, f, events, experiment.Plan{Rounds: 1, Seed: 1, Done: func(n int) { done = n }})
	require.NoError(t, err)
	if len(columns) != len(events) || done != len(events) || opened < len(events)/4 || closed != opened {
		t.Errorf("%d of %d events, %d told, %d profilers, %d closed", len(columns), len(events), done, opened, closed)
	}
	swept := Sweep{Groups: []Group{{Columns: columns}}}
	for i, v := range f.Values {
		swept.Points = append(swept.Points, Point{Value: v, Cycles: 6 + 3*float64(i%3%2)})
	}
	first := swept.Relate(swept.Groups[0])[0]
	if first.Name != "LD_BLOCKS_PARTIAL.ADDRESS_ALIAS" || len(first.Points) != 5 || first.Values[1] != 1 || first.Values[0] != 0 {
		t.Errorf("%+v", first)
	}
	refused := 0
	for _, c := range columns {
		switch node := strings.HasPrefix(c.Name, "node-"); {
		case node && c.Why != "":
			refused++
		case node || c.Name != first.Name && (c.Why != "" || c.Values[0] != 5 || c.Values[1] != 5):
			t.Errorf("%+v", c)
		}
	}
	if refused == 0 {
		t.Error("none was refused")
	}
}

// TestScreenErrors: what is no refusal of an event ends the screening, and the profiler is closed.
func TestScreenErrors(t *testing.T) {
	lost, closed := errors.New("lost"), 0
	for _, opens := range []error{lost, nil} {
		fails := &fake{of: func(int, profiler.Setup) (profiler.Result, error) { return profiler.Result{}, lost }}
		_, err := Screen(t.Context(), func([]profiler.Event) (measure.ProfileCloser, error) {
			return watched{fails, func(profiler.Setup) {}, func() { closed++ }}, opens
		}, nil, distances(t, 0, 16, 16), make([]profiler.Event, 2), experiment.Plan{Rounds: 1})
		if !errors.Is(err, lost) {
			t.Error(err)
		}
	}
	require.Equal(t, "profilers closed", 1, closed)
}
