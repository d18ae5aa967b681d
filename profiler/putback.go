package profiler

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// putBack is code that stands ahead of each copy of a block and gives it the addresses of a captured state again, an
// instruction a register, no flag changed. Only registers that addresses and divisions depend on are put back.
//
// Where no copy waits for an earlier one through a register, it is set. Where copies do wait, that wait is part
// of what is measured, and the register is moved back by the distance that a copy moves it.
type putBack struct {
	regs  []asm.Reg
	code  []byte
	twice []byte            // the same with each register put back twice, which shows what once costs
	start *initial.Captured // that the first put-back makes the captured state of
	again *initial.Captured // likewise of twice
	// set sets all of them, so that no copy waits for an earlier one through any; nil where code does.
	set    []byte
	placed *initial.Captured // the captured state, with set ahead of the block
	// walks says of each instruction of the block whether its addresses depend on what is put back.
	walks []bool
}

// detour is how far twice moves a register too little the first time where a register says how far to move it: too
// far for cores that add small constants for nothing while renaming (Golden Cove and later). Where a constant says
// so, twice moves by two of about its size, which cost what the one does, or nothing likewise.
const detour = 1 << 24

// planPutBack is the put-back for a block that took a state to another; ok is false if there is none.
func planPutBack(insts []asm.Inst, before, after *initial.Captured) (p putBack, ok bool) {
	w := waitsOf(insts)
	changed := w.changed(before, after)
	needed := w.needed(changed)
	if needed == 0 {
		return p, false
	}
	for _, on := range w.at {
		p.walks = append(p.walks, on&needed != 0)
	}
	once, twice, set := asm.NewEmitter(0), asm.NewEmitter(0), asm.NewEmitter(0)
	start, again := *before, *before
	free := w.free
	for r := range asm.Reg(16) {
		if needed>>r&1 == 0 {
			continue
		}
		p.regs = append(p.regs, r)
		set.MovImm(r, before.GPR[r])
		if !w.cyclic(r) {
			once.MovImm(r, before.GPR[r])
			twice.MovImm(r, before.GPR[r])
			twice.MovImm(r, before.GPR[r])
			continue
		}
		by := before.GPR[r] - after.GPR[r]
		start.GPR[r], again.GPR[r] = after.GPR[r], after.GPR[r]
		if d := int64(by); d >= math.MinInt32/2 && d <= math.MaxInt32/2 {
			moveBy(once, r, int32(d))
			moveBy(twice, r, int32(2*d))
			moveBy(twice, r, int32(-d))
			continue
		}
		if len(free) == 0 {
			return p, false
		}
		start.GPR[free[0]], again.GPR[free[0]] = by, by-detour
		addTo(once, r, free[0])
		addTo(twice, r, free[0])
		moveBy(twice, r, detour)
		free = free[1:]
	}
	p.code, p.twice = once.Bytes(), twice.Bytes()
	start.Address -= uint64(len(p.code))
	again.Address -= uint64(len(p.twice))
	p.start, p.again = &start, &again
	if p.set = set.Bytes(); slices.Equal(p.set, p.code) {
		p.set = nil
		return p, true
	}
	placed := *before
	placed.Address -= uint64(len(p.set))
	p.placed = &placed
	return p, true
}

// moveBy is lea r, [r + by].
func moveBy(e *asm.Emitter, r asm.Reg, by int32) {
	e.Raw(0x48|byte(r>>3)<<2|byte(r>>3), 0x8d, 0x80|byte(r&7)<<3|byte(r&7))
	if r&7 == asm.RSP { // its place says that there is a SIB byte
		e.Raw(0x24)
	}
	e.Raw(binary.LittleEndian.AppendUint32(nil, uint32(by))...)
}

// addTo is lea r, [r + by]; by is not rsp.
func addTo(e *asm.Emitter, r, by asm.Reg) {
	e.Raw(0x48|byte(r>>3)<<2|byte(by>>3)<<1|byte(r>>3), 0x8d, 0x44|byte(r&7)<<3, byte(by&7)<<3|byte(r&7), 0)
}

// Places that values are handed on in: 16 general registers, then these. All of memory is one, which finds waits that
// are none and misses none.
const (
	flagsPlace = 16 + iota
	x87Place
	memoryPlace
	opmaskPlace
	vectorPlace = opmaskPlace + 8
	places      = vectorPlace + 32
)

// waits are what a copy of a block takes from the one before.
type waits struct {
	of        [places]uint64 // which places' values before a copy a place's value after it depends on
	addresses uint64         // on which addresses, repetitions and divisions depend
	at        []uint64       // the same of each instruction's addresses alone
	written   uint64
	free      []asm.Reg // that the block does not touch
}

func waitsOf(insts []asm.Inst) (w waits) {
	for i := range w.of {
		w.of[i] = 1 << i
	}
	touched := uint64(1) << asm.RSP
	for i := range insts {
		in := &insts[i]
		r, written := in.Dataflow()
		from, to := placesOf(r), placesOf(written)
		var address uint64
		for _, m := range in.Mem {
			for _, reg := range []asm.Register{m.Base, m.Index, m.BitOffset, m.Mask} {
				if n, ok := reg.GPR(); ok {
					address |= 1 << n
				} else if n, ok := reg.Vector(); ok {
					address |= 1 << (vectorPlace + n)
				}
			}
			if m.Repeat != asm.Once {
				address |= 1 << asm.RCX
			}
			if m.Read {
				from |= 1 << memoryPlace
			}
			if m.Write {
				to |= 1 << memoryPlace
			}
		}
		if strings.HasSuffix(in.Mnemonic, "div") {
			address |= from
		}
		w.at = append(w.at, w.all(address))
		w.addresses |= w.all(address)
		touched |= from | to | address
		value := w.all(from | address)
		w.written |= to
		for p := range places {
			switch {
			case to>>p&1 == 0:
			case p == memoryPlace: // the rest of it keeps its values
				w.of[p] |= value
			default:
				w.of[p] = value
			}
		}
	}
	for r := asm.R15; r > asm.RAX; r-- {
		if touched>>r&1 == 0 {
			w.free = append(w.free, r)
		}
	}
	w.close()
	return w
}

func placesOf(v asm.Values) uint64 {
	set := uint64(v.GPR) | uint64(v.Opmask)<<opmaskPlace | uint64(v.Vector)<<vectorPlace
	if v.Flags != 0 {
		set |= 1 << flagsPlace
	}
	if v.X87 {
		set |= 1 << x87Place
	}
	return set
}

// all is what any of some places depends on.
func (w *waits) all(set uint64) (on uint64) {
	for p := range places {
		if set>>p&1 != 0 {
			on |= w.of[p]
		}
	}
	return on
}

// close makes of what a copy depends on what any number of copies do. A place that a copy does not write is not
// handed on by one.
func (w *waits) close() {
	for p := range places {
		if w.written>>p&1 == 0 {
			w.of[p] = 0
		}
	}
	for via := range places {
		for p := range places {
			if w.of[p]>>via&1 != 0 {
				w.of[p] |= w.of[via]
			}
		}
	}
}

// cyclic reports whether what a copy makes of a register depends on what an earlier one did.
func (w *waits) cyclic(r asm.Reg) bool { return w.of[r]>>r&1 != 0 }

// changed are the registers that a copy leaves with another value.
func (w *waits) changed(before, after *initial.Captured) (set uint64) {
	for r := range asm.Reg(16) {
		if before.GPR[r] != after.GPR[r] {
			set |= 1 << r
		}
	}
	return set
}

// needed are those of the changed registers that addresses depend on, but for what they take from memory: which
// loads find which stores is for the trace to say.
func (w *waits) needed(changed uint64) uint64 {
	const general = 1<<16 - 1
	on := w.addresses &^ (1 << memoryPlace)
	for before := uint64(0); on != before; {
		before = on
		for p := range places {
			if on>>p&1 != 0 && (p >= flagsPlace || changed>>p&1 != 0 && w.cyclic(asm.Reg(p))) {
				on |= w.of[p] &^ (1 << memoryPlace)
			}
		}
	}
	return on & changed & general
}
