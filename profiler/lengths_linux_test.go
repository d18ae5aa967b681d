package profiler

import (
	"math/rand/v2"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// fetched is the CPU's reaction to the first bytes of an instruction before unmapped
// memory.
type fetched int

const (
	wantsMore fetched = iota // it is not complete
	complete                 // it ran, or faulted for another reason than that
	absent                   // this CPU has no such instruction
	elsewhere                // the next instruction is not what follows it
)

// fetch runs bytes at the end of the dry run's code, before unmapped memory.
func (b bench) fetch(code []byte) fetched {
	b.t.Helper()
	start := layout.End - uint64(len(code))
	e := asm.NewEmitter(layout.DryRunCode)
	e.Fninit()
	for r := range asm.Reg(16) {
		e.MovImm(r, slidePage+layout.PageSize/2)
	}
	e.MovImm(asm.RCX, 1) // rep string operations end soon
	e.Jmp(start)
	copy(b.child.DryRunCode(), e.Bytes())
	copy(b.child.DryRunCode()[start-layout.DryRunCode:], code)
	stop, err := b.child.Try(nil, layout.DryRunCode, layout.DryRunCode, generous)
	if err != nil {
		b.t.Fatalf("% x: %v", code, err)
	}
	switch {
	case stop.Signal == tracee.SIGILL && stop.Regs.RIP == start:
		return absent
	case stop.Regs.RIP == start && stop.Signal == tracee.SIGSEGV && stop.Addr == layout.End:
		return wantsMore
	case stop.Regs.RIP == start || stop.Regs.RIP == layout.End:
		return complete
	}
	return elsewhere
}

// encodings returns a random instruction of each opcode of each map, with each kind of prefix.
func encodings(rng *rand.Rand) (list [][]byte) {
	try := func(head ...byte) {
		code := append([]byte(nil), head...)
		for len(code) < 15 { // the longest that there is (SDM vol. 2, 2.3.11)
			code = append(code, byte(rng.Uint32()))
		}
		if first := hostile.First(code); first != nil {
			list = append(list, first)
		}
	}
	for opcode := range 256 {
		op := byte(opcode)
		for _, prefix := range []string{"", "\x66", "\xf2", "\xf3", "\x48", "\x66\x48", "\xf3\x48", "\x67", "\x66\x67", "\x67\x48", "\x66\xf2", "\xf3\x66", "\x41", "\x4f", "\x64", "\x2e", "\xf0", "\x66\x66\x66\x66\x66\x66"} {
			for _, escape := range []string{"", "\x0f", "\x0f\x38", "\x0f\x3a"} {
				try([]byte(prefix + escape + string([]byte{op}))...)
			}
		}
		for range 24 {
			p := byte(rng.Uint32())
			try(0xc5, p, op)
			try(0xc4, p&0xe0|byte(1+rng.IntN(3)), byte(rng.Uint32()), op)
			try(0x62, p&0xf0|byte(1+rng.IntN(6)), byte(rng.Uint32())|4, byte(rng.Uint32()), op)
		}
	}
	return list
}

// TestCPUJudgesLengths: decoder and CPU agree on the length of each instruction. Otherwise a block
// could hide a jump or a system call in an operand.
func TestCPUJudgesLengths(t *testing.T) {
	b := openBench(t)
	if stop, err := b.child.Do(append(tracee.UnmapAll(0), tracee.MapFrame(slidePage, 0)), generous); err != nil || !stop.Done {
		t.Fatal(stop, err)
	}
	rng := hostile.Seeded(t)
	judged, notHere := 0, 0
	for range hostile.Scaled(1, 60) {
		for i, code := range encodings(rng) {
			if testing.Short() && i%5 != 0 {
				continue
			}
			insts := require.Get(asm.Decode(code))(t)
			switch b.fetch(code) {
			case absent:
				notHere++
				continue
			case wantsMore:
				if !ripRelative(insts[0]) { // whose operand may be what is not there
					t.Errorf("% x %s: the CPU reads on", code, insts[0].Text())
				}
			case elsewhere:
				t.Errorf("% x %s: the CPU goes elsewhere", code, insts[0].Text())
			}
			judged++
			if n := len(code) - 1; n > 0 && b.fetch(code[:n]) != wantsMore {
				t.Errorf("% x %s: the CPU needs only % x", code, insts[0].Text(), code[:n])
			}
		}
	}
	t.Logf("%d instructions judged, %d not on this CPU", judged, notHere)
	if judged < 5000 && !testing.Short() {
		t.Error("too few")
	}
}

func ripRelative(in asm.Inst) bool {
	for _, m := range in.Mem {
		if m.Base == asm.RIP {
			return true
		}
	}
	return false
}
