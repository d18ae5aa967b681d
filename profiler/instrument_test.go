package profiler

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// difference describes the difference between two machines, if any.
func (m machine) difference(other machine) string {
	var d []string
	for r := range m.gpr {
		if m.gpr[r] != other.gpr[r] {
			d = append(d, fmt.Sprintf("%v is %#x and %#x", asm.GPR(r), m.gpr[r], other.gpr[r]))
		}
	}
	if m.flags != other.flags {
		d = append(d, fmt.Sprintf("flags are %#x and %#x", m.flags, other.flags))
	}
	for _, part := range []struct {
		name string
		a, b []byte
		unit int
	}{
		{"zmm", m.vector, other.vector, 64}, {"k", m.mask, other.mask, 8}, {"fxsave area", m.legacy, other.legacy, 16},
		{"frame", m.frames, other.frames, layout.PageSize},
	} {
		for i := 0; i < len(part.a); i += part.unit {
			if x, y := part.a[i:][:part.unit], part.b[i:][:part.unit]; !bytes.Equal(x, y) {
				at := 0
				for x[at] == y[at] {
					at++
				}
				d = append(d, fmt.Sprintf("%s %d differs from byte %#x on: % x and % x", part.name, i/part.unit, at, x[at:min(at+8, len(x))], y[at:min(at+8, len(y))]))
			}
		}
	}
	return strings.Join(d, "; ")
}

// mapped returns the first of some initial states in which a block runs, or the rejection in the
// first.
func (b bench) mapped(code []byte, inits []initial.State, frames, copies int) (*mapping.MappedBlock, *verdict.Rejection) {
	b.t.Helper()
	var first *verdict.Rejection
	for _, init := range inits {
		r, err := b.block(code, init, frames, copies)
		if err == nil {
			return r, nil
		}
		var rejection *verdict.Rejection
		if !errors.As(err, &rejection) {
			b.t.Fatalf("%x: %v", code, err)
		}
		if first == nil {
			first = rejection
		}
	}
	return nil, first
}

// sameState runs plain and instrumented copies of a mapped block and describes their
// difference; ok is false if the block cannot be instrumented.
func (b bench) sameState(r *mapping.MappedBlock) (difference string, ok bool) {
	b.t.Helper()
	probe, err := harness.NewProbe(r.Insts, b.cpu.Features)
	if err != nil {
		return "", false
	}
	plain := b.build(r, r.Factors.Long)
	probed := require.Get(harness.BuildProbed(r.Long.End(), r.Insts, r.Factors.Long, harnessOf(r), probe))(b.t)
	return b.run(r, plain).difference(b.run(r, probed)), true
}

// hidden reports whether an access depends on registers that single steps do not see.
func hidden(m asm.Mem) bool { return m.Elements > 0 || m.Mask != asm.NoRegister }

// stepped computes the accesses of copies from the registers before each instruction.
func stepped(m *mapping.MappedBlock, copies int) (all []asm.Access, err error) {
	err = m.Step(copies, generous, func(copy, i int, at tracee.Regs) {
		in := &m.Insts[i]
		regs := asm.Regs{
			GPR: at.GPR, RIP: layout.Home + uint64(in.Offset+len(in.Bytes)),
			FSBase: m.Plan.Init.FSBase, GSBase: m.Plan.Init.GSBase,
		}
		for k, mem := range in.Mem {
			count := at.GPR[asm.RCX]
			if mem.AddrSize == 32 {
				count = uint64(uint32(count))
			}
			if hidden(mem) || mem.Repeat != asm.Once && count == 0 {
				continue // a rep instruction steps once per iteration, and once with rcx = 0
			}
			all = append(all, asm.Access{Copy: copy, Inst: i, Mem: k, Addr: mem.Addr(&regs), Width: mem.Width, Elem: mem.Width, Read: mem.Read, Write: mem.Write})
		}
	})
	return all, err
}

// fold joins the iterations of rep string operations, which single steps see one by one, and
// sorts the accesses of an instruction by operand.
func fold(steps []asm.Access) []asm.Access {
	var all []asm.Access
	for i := 0; i < len(steps); {
		first := steps[i]
		from := len(all)
		for ; i < len(steps) && steps[i].Copy == first.Copy && steps[i].Inst == first.Inst; i++ {
			a := steps[i]
			k := slices.IndexFunc(all[from:], func(x asm.Access) bool { return x.Mem == a.Mem })
			if k < 0 {
				all = append(all, a)
				continue
			}
			all[from+k].Addr = min(all[from+k].Addr, a.Addr)
			all[from+k].Width += a.Width
		}
		slices.SortStableFunc(all[from:], func(x, y asm.Access) int { return x.Mem - y.Mem })
	}
	return all
}

// sameAccesses compares the log of the instrumented copy with the accesses of single steps, for
// the operands that both know.
func (b bench) sameAccesses(r *mapping.MappedBlock) string {
	b.t.Helper()
	steps, err := stepped(r, r.Factors.Long)
	if err != nil {
		b.t.Fatalf("%s …: %v", r.Insts[0].Text(), err)
	}
	logged := slices.DeleteFunc(slices.Clone(r.Trace.Accesses), func(a asm.Access) bool {
		return hidden(r.Insts[a.Inst].Mem[a.Mem])
	})
	steps = fold(steps)
	// Copies beyond the trace repeat the accesses of its last copy.
	last := slices.DeleteFunc(slices.Clone(logged), func(a asm.Access) bool { return a.Copy != r.Trace.Copies-1 })
	for c := r.Trace.Copies; c < r.Factors.Long; c++ {
		for _, a := range last {
			a.Copy = c
			logged = append(logged, a)
		}
	}
	for i := range max(len(logged), len(steps)) {
		if i >= len(logged) || i >= len(steps) || logged[i] != steps[i] {
			at := func(list []asm.Access) string {
				if i >= len(list) {
					return "no more"
				}
				return fmt.Sprintf("%s %+v", r.Insts[list[i].Inst].Text(), list[i])
			}
			return fmt.Sprintf("access %d of %d and %d: logged %s, stepped %s", i, len(logged), len(steps), at(logged), at(steps))
		}
	}
	return ""
}

// states returns pairs of an initial state and a number of frames in turn: with one frame an access
// at a wrong address is hardest to detect, with many easiest.
func states(i int) (inits []initial.State, frames int) {
	inits = initial.States()
	if i%2 == 1 {
		return slices.Concat(inits[1:], inits[:1]), layout.MaxFrames
	}
	return inits, 1
}

// TestInstrumentedState: logging changes nothing that a block can see.
func TestInstrumentedState(t *testing.T) {
	b := openBench(t)
	compared, skipped := 0, 0
	for i, code := range corpusSample(t, 10) {
		inits, frames := states(i)
		r, _ := b.mapped(code, inits, frames, 3)
		if r == nil {
			skipped++
			continue
		}
		d, ok := b.sameState(r)
		if !ok {
			skipped++
			continue
		}
		compared++
		if d != "" {
			t.Errorf("%x (%s): plain and instrumented: %s", code, r.Plan.Init.Name, d)
		}
	}
	t.Logf("%d blocks compared, %d do not run or cannot be instrumented", compared, skipped)
	if compared < 30*skipped {
		t.Error("too few blocks run")
	}
}

// TestInstrumentedAccesses: the log holds every access that single steps see.
func TestInstrumentedAccesses(t *testing.T) {
	b := openBench(t)
	compared, skipped := 0, 0
	for i, code := range corpusSample(t, 40) {
		inits, frames := states(i)
		r, _ := b.mapped(code, inits, frames, 3)
		if r == nil {
			skipped++
			continue
		}
		compared++
		if d := b.sameAccesses(r); d != "" {
			t.Errorf("%x (%s): %s", code, r.Plan.Init.Name, d)
		}
	}
	t.Logf("%d blocks compared, %d do not run", compared, skipped)
	if compared < 30*skipped {
		t.Error("too few blocks run")
	}
}
