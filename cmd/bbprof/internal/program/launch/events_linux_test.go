package launch

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/tinyelf"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestCounter: on a scripted CPU, an event is counted alone and closed again, and one that another user interrupts is
// refused rather than scaled.
func TestCounter(t *testing.T) {
	const misses = 0x1234
	open, most, share := 0, 0, 1.0
	k := pmutest.New(4)
	k.Opens = func(pmu.Attr) error {
		open++
		return nil
	}
	k.Counts = func(a pmu.Attr) uint64 {
		most = max(most, k.Left())
		if a.Config == misses && a.Inherit {
			return 77
		}
		return 1000
	}
	k.Share = func(int) float64 { return share }
	r := newRunner(t, Options{Kernel: k})
	ctx := context.Background()
	events, note, err := r.Events([]string{"r1234"})
	if err != nil || note != "" || len(events) != 1 || events[0].Name != "r1234" {
		t.Fatalf("%v, %q, %v", events, note, err)
	}
	open, most = 0, 0
	c := r.Counting(events[0])
	got, err := c.Run(ctx, tiny(t, tinyelf.Exit(0)), Setup{})
	if err != nil || got != 77 || open != 1 || most != 1 || k.Left() != 0 {
		t.Errorf("%+v, %v; opened %d, %d at once, %d left", got, err, open, most, k.Left())
	}
	if got, err := r.Run(ctx, tiny(t, tinyelf.Exit(0)), Setup{}); err != nil || got != 1000 {
		t.Errorf("cycles: %+v, %v", got, err)
	}
	share = 0.5
	if _, err := c.Run(ctx, tiny(t, tinyelf.Exit(0)), Setup{}); !errors.As(err, new(*verdict.HostError)) {
		t.Errorf("a counter that was shared: %v", err)
	}
}

// TestEvents: names are found or refused; all means what can be counted, which without counters is the kernel's.
func TestEvents(t *testing.T) {
	k := pmutest.New(4)
	with := newRunner(t, Options{Kernel: k})
	all, note, err := with.Events([]string{allEvents})
	if err != nil || note != "" || !contains(all, "instructions") {
		t.Errorf("%v, %q, %v", all, note, err)
	}
	if _, _, err := with.Events([]string{"frobnications"}); !errors.As(err, new(*profiler.EventError)) {
		t.Error(err)
	}
	k.Opens = func(pmu.Attr) error { return syscall.ENOENT }
	if _, _, err := with.Events([]string{"instructions"}); !errors.As(err, new(*verdict.HostError)) {
		t.Error(err)
	}
	without := newRunner(t, Options{Kernel: &pmutest.Kernel{Refuse: syscall.ENOENT}})
	all, note, err = without.Events([]string{allEvents, "task-clock"})
	if err != nil || note == "" || !contains(all, "page-faults") || contains(all, "instructions") || all[len(all)-1].Name != "task-clock" {
		t.Errorf("%v, %q, %v", all, note, err)
	}
}

func contains(events []Event, name string) bool {
	return slices.ContainsFunc(events, func(e Event) bool { return e.Name == name })
}
