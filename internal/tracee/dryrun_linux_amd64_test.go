package tracee

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

func unmapBelow() Op { return UnmapAll(0)[0] }

func unmapAbove() Op { return UnmapAll(0)[1] }

// A dry run's list works like any other, and the child continues to serve however it ends.
func TestTry(t *testing.T) {
	c := launch(t)
	load := func(addr uint64) func(e *asm.Emitter) {
		return func(e *asm.Emitter) {
			e.MovImm(asm.RSI, addr)
			e.LoadAt(asm.RAX, asm.RSI, 8)
		}
	}
	c.Frame(3)[8] = 77
	if stop := try(t, c, load(0x1000_0000), unmapBelow(), unmapAbove(), MapFrame(0x1000_0000, 3)); !stop.Done || stop.Regs.GPR[asm.RAX] != 77 {
		t.Errorf("%+v, want 77 in rax", stop)
	}
	mustServe(t, c)
	if stop := try(t, c, load(0x1000_0000)); !stop.Done {
		t.Errorf("the page is gone: %+v", stop)
	}
	if stop := try(t, c, load(0x2000_0000)); stop.Signal != SIGSEGV || stop.Addr != 0x2000_0008 {
		t.Errorf("%+v, want a fault at %#x", stop, 0x2000_0008)
	}
	// The kernel maps nothing there for anybody.
	if stop := try(t, c, nil, unmapBelow(), MapFrame(1<<63, 0)); stop.FailedOp != 1 || stop.Errno == 0 {
		t.Errorf("%+v, want the second step to fail", stop)
	}
	mustServe(t, c)
	for _, n := range []int{layout.MaxDryRunOps - 1, layout.MaxDryRunOps} {
		ops := make([]Op, n)
		for i := range ops {
			ops[i] = unmapBelow()
		}
		stop, err := c.Try(ops, layout.DryRunCode, layout.DryRunCode+1, generous)
		if fits := n < layout.MaxDryRunOps; (err == nil) != fits {
			t.Errorf("%d steps: %+v, %v", n, stop, err)
		}
	}
	mustServe(t, c)
}

// A block that forges a jump to the gate can only change sides: its arguments must be exactly those of one of the
// changes.
func TestForgedProtection(t *testing.T) {
	c := launch(t)
	for _, op := range slices.Concat(toDryRun(0, 0), toMeasure(0, 0), OpenCounter(0), closeCounter(0)) {
		for i, change := range []Op{
			protect(op.args[0], op.args[0]+op.args[1], 7),
			protect(op.args[0], op.args[0]+op.args[1], op.args[2]|protWrite|protExec),
			protect(op.args[0]-layout.PageSize, op.args[0]+op.args[1], op.args[2]),
			protect(op.args[0], op.args[0]+op.args[1]+layout.PageSize, op.args[2]),
		} {
			callAt(c, c.stub.gate-2, change.number, change.args[:3]...)
			require.Equal(t, fmt.Sprintf("%#x, change %d", op.args, i), SIGSYS, do(t, c, Run(entry, 1)).Signal)
		}
	}
	mustServe(t, c)
	mustHold(t, c, measuringSide)
}
