package profiler

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// TestCPUBudget: only the CPU time of the thread and its children, including lost ones, counts towards the budget.
func TestCPUBudget(t *testing.T) {
	b := openBench(t)
	const limit = 50 * time.Millisecond
	endless := func(limit time.Duration) { // which costs the child
		t.Helper()
		require.NoError(t, b.ready())
		e := asm.NewEmitter(b.timer.Images())
		e.Raw(0xeb, 0xfe) // jmp $
		copy(b.child.Code()[b.timer.Images()-layout.Code:], e.Bytes())
		_, err := b.child.Do([]tracee.Op{tracee.Run(b.timer.Images(), 1)}, limit)
		if dead := (*tracee.DeadError)(nil); !errors.As(err, &dead) || !dead.Overtime {
			t.Fatal(err)
		}
	}
	exhausted := b.startBudget(limit)
	mustBe := func(want bool, after string) {
		t.Helper()
		require.Equal(t, "used up after "+after, want, exhausted())
	}
	time.Sleep(2 * limit)
	mustBe(false, "waiting")
	for began := time.Now(); time.Since(began) < limit/4; {
	}
	endless(limit / 4)
	mustBe(false, "half of it")
	endless(limit)
	mustBe(true, "a second child")
	require.NoError(t, b.ready())
	mustBe(true, "a third child, which forgets nothing")
	exhausted = b.startBudget(limit)
	for began := time.Now(); time.Since(began) < 10*limit && !exhausted(); {
	}
	mustBe(true, "work of the thread")
	exhausted = b.startBudget(limit)
	time.Sleep(2 * limit)
	mustBe(false, "what was used before it began")
}

// A child that replaces a killed one also ends with the block's context.
func TestReplacementIsKilled(t *testing.T) {
	b := openBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer b.killOnDone(ctx)()
	b.discard()
	require.NoError(t, b.ready())
	cancel()
	for deadline := time.Now().Add(generous); ; time.Sleep(time.Millisecond) {
		err := b.child.Complete(nil, generous, "nothing")
		if dead := (*tracee.DeadError)(nil); errors.As(err, &dead) {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the child is alive: %v", err)
		}
	}
}

// After Close every method returns ErrClosed, and a second Close does nothing.
func TestClosed(t *testing.T) {
	p := start(t, Options{})
	p.Close()
	p.Close()
	_, profile := p.Profile(t.Context(), Block{Code: []byte{0x90}})
	_, events := p.AllEvents(t.Context())
	for i, err := range []error{profile, events, p.CanCount(t.Context(), "instructions"), p.ProfileAll(t.Context(), nil, nil)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// Several goroutines share a profiler, and one of them closes it: each block is measured or rejected with ErrClosed.
func TestConcurrentUse(t *testing.T) {
	p, err := New(t.Context(), Options{Budget: 1})
	require.Measure(t, err)
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			for n := 0; ; n++ {
				r, err := p.Profile(t.Context(), Block{Code: []byte{0x48, 0x01, 0xc0}})
				switch {
				case errors.Is(err, ErrClosed):
					return
				case err != nil || r.Hex != "4801c0" || r.Status == Failed:
					t.Errorf("%+v, %v", r, err)
					return
				case i == 0 && n == 3:
					p.Close()
				}
			}
		})
	}
	users.Wait()
}

// TestCountInstructions: an instruction counts once, with any number of repetitions.
func TestCountInstructions(t *testing.T) {
	for _, c := range []struct {
		code   string
		want   int
		reason verdict.Reason
		says   string
	}{
		{"90", 1, "", ""},
		{"b910000000f3a4", 2, "", ""},   // mov ecx,16; rep movsb
		{"31c9f3a4", 2, "", ""},         // xor ecx,ecx; rep movsb
		{"b903000000f2ae90", 3, "", ""}, // mov ecx,3; repne scasb; nop
		{"7500", 1, "", ""},             // a branch alone, which a measurement inverts
		{"0f28430190", 0, verdict.UnalignedOperand, ""},
		{"", 0, verdict.BadHex, ""},
		{"ff2503000000", 0, verdict.ControlFlow, "jmp qword ptr [rip+0x3]"},
		{"b9a08601004889dff3aa", 0, verdict.Timeout, "did not end within"}, // mov ecx,100000; mov rdi,rbx; rep stosb
	} {
		within := time.Minute
		if c.reason == verdict.Timeout {
			within = 50 * time.Millisecond
		}
		got, err := countWithin(t.Context(), Block{Code: require.Hex(t, c.code)}, within)
		require.Host(t, err)
		if err != nil || got.Instructions != c.want || (got.Rejection != nil) != (c.reason != "") {
			t.Errorf("%s: %+v, %v, want %d", c.code, got, err, c.want)
		} else if got.Rejection != nil && (got.Rejection.Reason != c.reason || !strings.Contains(got.Rejection.Error(), c.says)) {
			t.Errorf("%s: %v, want %s, %q", c.code, got.Rejection, c.reason, c.says)
		}
	}
}

// Software events are counted on every kernel.
func TestSoftwareEventsHere(t *testing.T) {
	p := start(t, Options{Clock: TSCClock, Events: []string{"task-clock", "page-faults"}})
	before := owned(t).files
	r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, "480fafc0")}))(t) // imul: 3 cycles
	require.Equal(t, "descriptors", before, owned(t).files)
	if r.Status == Rejected {
		require.Measure(t, r.Rejection)
	}
	got := map[string]float64{"task-clock": math.NaN(), "page-faults": math.NaN()}
	for _, c := range r.Counters {
		if c.PerIteration != nil && c.Reader == "read" {
			got[c.Event] = *c.PerIteration
		}
	}
	if ns := got["task-clock"]; !(ns >= 0.3 && ns <= 3) || got["page-faults"] != 0 { // of 1 to 10 GHz
		t.Errorf("%v per iteration", got)
	}
}
