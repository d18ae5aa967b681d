package predict

import (
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// Latencies without a measurement: of an instruction, and of a load.
const (
	unknownLatency = 1
	unknownLoad    = 4
	// chainCopies is enough for a chain's start not to matter.
	chainCopies = 32
)

// longestChain returns the cycles of an iteration that waits only for values: the growth of the time at which the last
// value is ready. Addresses are those of bbprof's initial state, with equal registers.
func longestChain(insts []asm.Inst, latencies []map[string]float64) float64 {
	c := newChain(insts, latencies)
	half, last := 0.0, 0.0
	for n := range chainCopies {
		if t := c.iterate(n); t > last {
			last = t
		}
		if n == chainCopies/2-1 {
			half = last
		}
	}
	return (last - half) / (chainCopies / 2)
}

// value is a register or a group of flags.
type value struct {
	kind byte // g, v, k, x: x87; c: the carry flag, f: the other flags
	n    int
}

// end is an input or output of an instruction: an operand's number, an implicit register or flags, or the address.
type end struct {
	value
	name string
}

type link struct {
	from, to int // ends
	cycles   float64
}

// step is an instruction of the chain.
type step struct {
	reads, writes []end
	links         []link
	loads, stores []int // memory accesses
	load          float64
	reload        float64 // from an operand to a later load of it
}

type chain struct {
	steps    []step
	insts    []asm.Inst
	ready    map[value]float64
	memory   map[uint64]float64 // by byte: when it can be loaded
	accesses map[[3]int]uint64  // addresses by copy, instruction, access
}

func newChain(insts []asm.Inst, latencies []map[string]float64) *chain {
	c := &chain{insts: insts, ready: map[value]float64{}, memory: map[uint64]float64{}, accesses: map[[3]int]uint64{}}
	accesses, stores := 0, false
	for i := range insts {
		c.steps = append(c.steps, newStep(&insts[i], latencies[i]))
		accesses, stores = accesses+len(insts[i].Mem), stores || len(c.steps[i].stores) > 0
	}
	if !stores {
		return c
	}
	for k, a := range asm.Follow(insts, chainCopies, initial.Paper().StartAt(0)) {
		if a.Known {
			c.accesses[[3]int{k / accesses, a.Inst, a.Mem}] = a.Addr
		}
	}
	return c
}

// iterate adds an iteration and returns when its last value is ready.
func (c *chain) iterate(n int) (last float64) {
	for i := range c.steps {
		s := &c.steps[i]
		at := make([]float64, len(s.writes))
		for _, l := range s.links {
			at[l.to] = max(at[l.to], c.ready[s.reads[l.from].value]+l.cycles)
		}
		data := 0.0
		for _, r := range s.reads {
			if r.name != "address" {
				data = max(data, c.ready[r.value])
			}
		}
		for _, m := range s.loads {
			addr, known := c.accesses[[3]int{n, i, m}]
			if !known {
				continue
			}
			ready := 0.0
			for b := range uint64(c.insts[i].Mem[m].Width) {
				ready = max(ready, c.memory[addr+b])
			}
			if ready > 0 {
				for k := range at {
					at[k] = max(at[k], ready+s.load)
				}
				data = max(data, ready)
			}
		}
		for _, m := range s.stores {
			if addr, known := c.accesses[[3]int{n, i, m}]; known {
				for b := range uint64(c.insts[i].Mem[m].Width) {
					c.memory[addr+b] = data + s.reload
				}
			}
		}
		for k, w := range s.writes {
			c.ready[w.value] = at[k]
			last = max(last, at[k])
		}
		last = max(last, data)
	}
	return last
}

func newStep(in *asm.Inst, latencies map[string]float64) (s step) {
	reads, writes := in.Dataflow()
	names := namesOf(in)
	address := map[value]bool{}
	for m := range in.Mem {
		if in.Mem[m].Read {
			s.loads = append(s.loads, m)
		}
		if in.Mem[m].Write {
			s.stores = append(s.stores, m)
		}
		for _, r := range []asm.Register{in.Mem[m].Base, in.Mem[m].Index} {
			if n, ok := r.GPR(); ok {
				address[value{'g', n}] = true
			}
		}
	}
	for _, v := range valuesOf(reads) {
		if address[v] {
			s.reads = append(s.reads, end{v, "address"})
		}
		if name := names[v]; !address[v] || name != "" {
			s.reads = append(s.reads, end{v, nameOr(name, v)})
		}
	}
	for _, v := range valuesOf(writes) {
		s.writes = append(s.writes, end{v, nameOr(names[v], v)})
	}
	s.load = unknownLoad
	if len(s.loads) == 0 {
		s.load = 0
	}
	for pair, cycles := range latencies {
		switch {
		case strings.HasPrefix(pair, "address to "):
			s.load = max(s.load, cycles)
		case strings.HasSuffix(pair, " to m"):
			s.reload = max(s.reload, cycles-unknownLoad)
		}
	}
	stack := value{'g', int(asm.RSP)}
	for f, from := range s.reads {
		for t, to := range s.writes {
			cycles := s.latency(from, to, latencies)
			if len(in.Mem) > 0 && in.Mem[len(in.Mem)-1].Implicit && from.value == stack && to.value == stack {
				cycles = 0 // the decoders track the stack pointer
			}
			s.links = append(s.links, link{f, t, cycles})
		}
	}
	return s
}

// latency returns the measured latency of a pair, else the least to the same destination, which its result must wait
// for.
func (s *step) latency(from, to end, latencies map[string]float64) float64 {
	if cycles, ok := latencies[from.name+" to "+to.name]; ok {
		return cycles
	}
	if from.name == "address" {
		return s.load
	}
	least, found := 0.0, false
	for pair, cycles := range latencies {
		a, b, _ := strings.Cut(pair, " to ")
		if a != "address" && b == to.name && (!found || cycles < least) {
			least, found = cycles, true
		}
	}
	if found {
		return least
	}
	return unknownLatency
}

// namesOf returns operand numbers by register.
func namesOf(in *asm.Inst) map[value]string {
	names := map[value]string{}
	form := in.Form()
	numbers, _, mask, ok := in.OperandValues()
	if !ok || form == nil {
		return names
	}
	for i, o := range form.Operands() {
		kind := map[asm.OperandClass]byte{asm.GPROperand: 'g', asm.VectorOperand: 'v', asm.OpmaskOperand: 'k'}[o.Class]
		if kind != 0 && i < len(numbers) {
			v := value{kind, int(numbers[i])}
			if names[v] == "" || o.Read {
				names[v] = strconv.Itoa(i + 1)
			}
		}
	}
	if mask > 0 {
		names[value{'k', mask}] = "k"
	}
	return names
}

// nameOr names an operand, or an implicit value.
func nameOr(name string, v value) string {
	switch {
	case name != "":
		return name
	case v.kind == 'g':
		return strings.ToLower(asm.Reg(v.n).String())
	case v.kind == 'c' || v.kind == 'f':
		return "flags"
	case v.kind == 'x':
		return "st"
	}
	return "xmm0"
}

func valuesOf(v asm.Values) (all []value) {
	for n := range 16 {
		if v.GPR>>n&1 != 0 {
			all = append(all, value{'g', n})
		}
	}
	for n := range 32 {
		if v.Vector>>n&1 != 0 {
			all = append(all, value{'v', n})
		}
	}
	for n := range 8 {
		if v.Opmask>>n&1 != 0 {
			all = append(all, value{'k', n})
		}
	}
	if v.Flags&asm.Carry != 0 {
		all = append(all, value{'c', 0})
	}
	if v.Flags&^asm.Carry != 0 {
		all = append(all, value{'f', 0})
	}
	if v.X87 {
		all = append(all, value{'x', 0})
	}
	return all
}
