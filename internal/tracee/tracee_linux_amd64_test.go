package tracee

import (
	"runtime"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

// generous is a limit for lists that end by themselves, on the busiest machine.
const generous = 30 * time.Second

// launch starts a child for a test, or skips it with the reason.
func launch(t testing.TB) *Tracee {
	t.Helper()
	runtime.LockOSThread()
	c, err := Launch(0, fsBase, gsBase)
	if err != nil {
		runtime.UnlockOSThread()
		require.Measure(t, err)
	}
	t.Cleanup(func() {
		c.Close()
		runtime.UnlockOSThread()
	})
	return c
}

const (
	fsBase = 0x2345_6800
	gsBase = 0x3456_7a00
	entry  = layout.Code + 0x1000 // where tests place code
)

// place writes an image to entry that ends with an epilogue.
func place(c *Tracee, emit func(e *asm.Emitter)) {
	e := asm.NewEmitter(entry)
	emit(e)
	harness.Epilogue(e, entry, harness.TSC)
	copy(c.Code()[entry-layout.Code:], e.Bytes())
}

// do returns a stop, and fails the test on an error.
func do(t *testing.T, c *Tracee, ops ...Op) Stop {
	t.Helper()
	return require.Get(c.Do(ops, generous))(t)
}

// mustServe checks that the child still completes a list.
func mustServe(t *testing.T, c *Tracee) {
	t.Helper()
	c.SetWord(layout.SlotSamples, 41)
	count(c)
	if stop := do(t, c, Run(entry, 1)); !stop.Done || c.Word(layout.SlotSamples) != 42 {
		t.Fatalf("the child does not serve any more: %+v, slot %d", stop, c.Word(layout.SlotSamples))
	}
}

// try runs code as a dry run, with an int3 after it.
func try(t *testing.T, c *Tracee, emit func(e *asm.Emitter), ops ...Op) Stop {
	t.Helper()
	e := asm.NewEmitter(layout.DryRunCode)
	if emit != nil {
		emit(e)
	}
	e.Int3()
	copy(c.DryRunCode(), e.Bytes())
	return require.Get(c.Try(ops, layout.DryRunCode, e.PC(), generous))(t)
}
