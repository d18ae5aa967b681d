package profiler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// TestCPUBudget: only the CPU time of the thread and its children, including lost children, counts
// towards the budget.
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
	a := b.startBudget(limit)
	time.Sleep(2 * limit)
	if a.exhausted() {
		t.Error("used up by waiting")
	}
	for began := time.Now(); time.Since(began) < limit/4; {
	}
	if endless(limit / 4); a.exhausted() {
		t.Error("half of it is all of it")
	}
	if endless(limit); !a.exhausted() {
		t.Error("not used up by a second child")
	}
	require.NoError(t, b.ready())
	if !a.exhausted() {
		t.Error("what the second child used is forgotten with a third")
	}
	a = b.startBudget(limit)
	for began := time.Now(); time.Since(began) < 10*limit && !a.exhausted(); {
	}
	if !a.exhausted() {
		t.Error("not used up by the thread")
	}
	a = b.startBudget(limit)
	if time.Sleep(2 * limit); a.exhausted() {
		t.Error("the next begins with what was used before")
	}
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
