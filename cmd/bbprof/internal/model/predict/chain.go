package predict

import (
	"math/bits"
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
	c := chain{insts: insts, ready: map[asm.Values]float64{}, memory: map[uint64]float64{}}
	stores := false
	for i := range insts {
		c.steps = append(c.steps, newStep(&insts[i], latencies[i]))
		_, writes := insts[i].Accesses()
		stores = stores || writes
	}
	if stores {
		c.accesses = asm.Follow(insts, chainCopies, initial.Paper().StartAt(0))
	}
	half, last := 0.0, 0.0
	for n := range chainCopies {
		if last = max(last, c.iterate()); n == chainCopies/2-1 {
			half = last
		}
	}
	return (last - half) / (chainCopies / 2)
}

type link struct {
	from   asm.Values
	to     int // index in writes
	cycles float64
}

// step is an instruction of the chain.
type step struct {
	data   []asm.Values // read, but for addresses
	writes []asm.Values
	links  []link
	load   float64
	reload float64 // from an operand to a later load of it
}

type chain struct {
	insts    []asm.Inst
	steps    []step
	ready    map[asm.Values]float64
	memory   map[uint64]float64 // by byte: when it can be loaded
	accesses []asm.Followed     // of the iterations to come; none if nothing is stored
}

// iterate adds an iteration and returns when its last value is ready.
func (c *chain) iterate() (last float64) {
	for i := range c.steps {
		s, mem := &c.steps[i], c.insts[i].Mem
		accesses := c.accesses[:min(len(mem), len(c.accesses))]
		c.accesses = c.accesses[len(accesses):]
		at := make([]float64, len(s.writes))
		for _, l := range s.links {
			at[l.to] = max(at[l.to], c.ready[l.from]+l.cycles)
		}
		data := 0.0
		for _, v := range s.data {
			data = max(data, c.ready[v])
		}
		for k, a := range accesses {
			stored := 0.0
			for b := range uint64(mem[k].Width) {
				stored = max(stored, c.memory[a.Addr+b])
			}
			if !mem[k].Read || !a.Known || stored == 0 {
				continue
			}
			for n := range at {
				at[n] = max(at[n], stored+s.load)
			}
			data = max(data, stored)
		}
		for k, a := range accesses {
			if mem[k].Write && a.Known {
				for b := range uint64(mem[k].Width) {
					c.memory[a.Addr+b] = data + s.reload
				}
			}
		}
		last = max(last, data)
		for n, v := range s.writes {
			c.ready[v] = at[n]
			last = max(last, at[n])
		}
	}
	return last
}

func newStep(in *asm.Inst, latencies map[string]float64) (s step) {
	reads, writes := in.Dataflow()
	names := namesOf(in)
	var address asm.Values
	for _, m := range in.Mem {
		address.GPR |= m.GPRs()
	}
	if loads, _ := in.Accesses(); loads {
		s.load = unknownLoad
	}
	for pair, cycles := range latencies {
		switch {
		case strings.HasPrefix(pair, "address to "):
			s.load = max(s.load, cycles)
		case strings.HasSuffix(pair, " to m"):
			s.reload = max(s.reload, cycles-unknownLoad)
		}
	}
	s.writes = writes.Single()
	stack := asm.Values{GPR: 1 << asm.RSP}
	implicit := len(in.Mem) > 0 && in.Mem[len(in.Mem)-1].Implicit
	add := func(from asm.Values, name string) {
		for n, to := range s.writes {
			cycles := s.latency(name, nameOr(names[to], to), latencies)
			if implicit && from == stack && to == stack {
				cycles = 0 // the decoders track the stack pointer
			}
			s.links = append(s.links, link{from, n, cycles})
		}
	}
	for _, v := range reads.Single() {
		addresses := v.And(address) != asm.Values{}
		if addresses {
			add(v, "address")
		}
		if names[v] != "" || !addresses {
			add(v, nameOr(names[v], v))
			s.data = append(s.data, v)
		}
	}
	return s
}

// latency returns the measured latency of a pair, else the least to the same destination, which its result must wait
// for.
func (s *step) latency(from, to string, latencies map[string]float64) float64 {
	if cycles, ok := latencies[from+" to "+to]; ok {
		return cycles
	}
	if from == "address" {
		return s.load
	}
	least, found := float64(unknownLatency), false
	for pair, cycles := range latencies {
		a, b, _ := strings.Cut(pair, " to ")
		if a != "address" && b == to && (!found || cycles < least) {
			least, found = cycles, true
		}
	}
	return least
}

// namesOf returns operand numbers by register.
func namesOf(in *asm.Inst) map[asm.Values]string {
	names := map[asm.Values]string{}
	form := in.Form()
	numbers, _, mask, ok := in.OperandValues()
	if !ok || form == nil {
		return names
	}
	for i, o := range form.Operands()[:min(len(numbers), len(form.Operands()))] {
		var v asm.Values
		switch n := numbers[i]; o.Class {
		case asm.GPROperand:
			v.GPR = 1 << n
		case asm.VectorOperand:
			v.Vector = 1 << n
		case asm.OpmaskOperand:
			v.Opmask = 1 << n
		default:
			continue
		}
		if names[v] == "" || o.Read {
			names[v] = strconv.Itoa(i + 1)
		}
	}
	if mask > 0 {
		names[asm.Values{Opmask: 1 << mask}] = "k"
	}
	return names
}

// nameOr names an operand, or an implicit value.
func nameOr(name string, v asm.Values) string {
	switch {
	case name != "":
		return name
	case v.GPR != 0:
		return asm.Reg(bits.TrailingZeros16(v.GPR)).String()
	case v.Flags != 0:
		return "flags"
	case v.X87:
		return "st"
	}
	return "xmm0"
}
