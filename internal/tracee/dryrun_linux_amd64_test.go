package tracee

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

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

// TestSides accesses every part of the own region in each of its states. Closed parts fault, with the address.
func TestSides(t *testing.T) {
	c := launch(t)
	reach := func(addr uint64, write bool) func(e *asm.Emitter) {
		return func(e *asm.Emitter) {
			e.MovImm(asm.RSI, addr)
			e.LoadAt(asm.RAX, asm.RSI, 0)
			if write {
				e.StoreAt(asm.RSI, 0, asm.RAX)
			}
		}
	}
	rights := func(holds []mapped, addr uint64) (read, write bool) {
		for _, m := range holds {
			if addr >= m.from && addr < m.to {
				return m.rights[0] == 'r', m.rights[1] == 'w'
			}
		}
		return false, false
	}
	places := []uint64{layout.Stub, layout.Stub + layout.PageSize, layout.Frames, layout.Frames + layout.FramesSize - 8, layout.Frames + layout.FramesSize}
	for _, area := range []uint64{layout.Control, layout.Ops, layout.Samples, layout.Restore, layout.Code, layout.Log,
		layout.CodeEnd, layout.DryRunLoop, layout.DryRunOps, layout.DryRunCode, layout.End} {
		places = append(places, area-8, area, area+layout.PageSize-8)
	}
	for _, write := range []bool{false, true} {
		for _, addr := range places {
			may := func(holds []mapped) bool {
				r, w := rights(holds, addr)
				return r && (w || !write)
			}
			what := fmt.Sprintf("%#x, write %v", addr, write)
			mustFault := func(side string, stop Stop, may, done bool) {
				t.Helper()
				if done != may || !may && (stop.Signal != SIGSEGV || stop.Addr != addr) {
					t.Errorf("%s, %s: %+v, may %v", side, what, stop, may)
				}
			}
			stop := try(t, c, reach(addr, write), unmapBelow(), unmapAbove())
			mustFault("in a dry run", stop, may(dryRunSide), stop.Done)
			place(c, func(e *asm.Emitter) {
				reach(addr, write)(e)
				e.Int3()
			})
			stop = do(t, c, unmapBelow(), unmapAbove(), Run(entry, 1))
			mustFault("measuring", stop, may(measuringSide), stop.Signal == SIGTRAP)
			stop = try(t, c, reach(addr, write), unmapBelow(), unmapAbove(), OpenCounter(0)[0])
			mustFault("in a dry run with a counter", stop, may(countingSide), stop.Done)
			do(t, c) // closes the counter
		}
	}
	mustServe(t, c)
	mustHold(t, c, measuringSide)
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
			if stop := do(t, c, Run(entry, 1)); stop.Signal != SIGSYS {
				t.Errorf("%#x, change %d: %+v, want SIGSYS", op.args, i, stop)
			}
		}
	}
	mustServe(t, c)
	mustHold(t, c, measuringSide)
}
