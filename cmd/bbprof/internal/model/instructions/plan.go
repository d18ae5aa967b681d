package instructions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/unroll"
)

type Kind uint8

const (
	Latency     Kind = iota // from one operand to another
	LoadLatency             // from an address to the destination
	StoreToLoad             // from a source through memory and a load back to it, together
	Throughput              // cycles per instruction, if none waits
	Bridge
	OtherLatency // latency in a short row
	Output       // from the old value of a destination that the form only writes
)

type Probe struct {
	Kind Kind
	Pair string // from which operand to which, counted from 1
	body
	Links   int      // instructions of the form in chain or block
	Bridges []bridge // in each link
	Others  float64  // other instructions per link, of a cycle each
	Note    string
	Breaks  bool            // breaks the form's own dependency on its predecessor
	Stated  bool            // Note names the operand values
	Set     initial.Set     // initial registers, besides the initial state
	Unroll  *unroll.Factors // nil: the profiler's choice
}

type Plan struct {
	Name    string    // form, or the snippet's first instruction
	Form    *asm.Form // nil for a snippet
	Snippet *Snippet  // nil for a form
	Refused string    // why there are no probes
	Probes  []Probe
	Missing []string // pairs without a chain, with the reason
}

// slot is an end of a dependency: an operand or an implicit value.
type slot struct {
	name  string
	class class
	op    int // operand index, or implicit
	fixed int // the only register; -1 if it can be chosen
}

const (
	implicitOperand = -1
	maskOperand     = -2
)

func NewPlan(f *asm.Form) Plan {
	p := newPlanner(f)
	if p.Refused != "" {
		return p.Plan
	}
	switch {
	case f.X87():
		p.x87()
	case divides(f.Mnemonic()):
		p.division()
	case p.dividesFloats():
		p.floats()
	default:
		p.latencies()
		p.throughputs()
	}
	p.overwritten()
	if f.Mnemonic() == "movs" {
		p.moves()
	}
	p.openMasks()
	for i := range p.Probes {
		probe := &p.Probes[i]
		if p.countInCL() {
			probe.set("rcx=%d,r%d=%[1]d", shiftCount, other)
		}
		probe.lengthen()
		if f.X87() && !slices.ContainsFunc(p.operands, func(o asm.Operand) bool { return o.Width == 10 }) {
			probe.set("fill=0x3ff5555555555555") // no subnormals, as 64-bit memory holds
		}
	}
	p.Probes = slices.DeleteFunc(p.Probes, func(probe Probe) bool {
		if probe.err != nil {
			p.Missing = append(p.Missing, fmt.Sprintf("%s: %v", probe.Pair, probe.err))
		}
		return probe.err != nil
	})
	return p.Plan
}

func (p *Probe) set(format string, values ...any) {
	set, err := initial.ParseSet(fmt.Sprintf(format, values...))
	if p.Set = set; p.err == nil {
		p.err = err
	}
}

func (p *Probe) bits() int {
	insts, _ := asm.Decode(p.Code) // bbprof reports invalid code
	return max(128, asm.StateOf(insts).VectorBits)
}

// lengthen repeats blocks of 512-bit operations more often: the first 200 cycles or so run at another rate. With 24 and
// 48 copies two multiplications a cycle read as 2.2, with 40 and 120 as 2.00.
func (p *Probe) lengthen() {
	const short, long = 480, 1440 // instructions: these copies at twelve a block
	if n := max(1, p.Links); p.Kind == Throughput && p.bits() == 512 {
		p.Unroll = &unroll.Factors{Short: short / n, Long: long / n}
	}
}

// shiftCount is the count of shifts and rotates. Counts of 1 have their own forms, and some processors treat them
// differently.
const shiftCount = 5

// saturates reports whether the form's micro-operations fill their ports at the rate of its own chain: rotates and
// shifts of general registers by 1 or by cl, which merge flags.
func (p *planner) saturates() bool {
	name := p.Form.Mnemonic()
	return slices.Contains([]string{"rol", "ror", "rcl", "rcr", "shl", "shr", "sar"}, name) && !strings.HasSuffix(p.Form.Name(), "i8")
}

func (p *planner) countInCL() bool { return strings.HasSuffix(p.Form.Name(), ", cl") }

type planner struct {
	Plan
	operands                      []asm.Operand
	flagsRead, flagsWritten       asm.Flags
	readImplicit, writtenImplicit asm.Values
}

func newPlanner(f *asm.Form) *planner {
	p := &planner{Plan: Plan{Name: f.Name(), Form: f}, operands: f.Operands()}
	if reason, why := f.Refused(); reason != "" {
		p.Refused = fmt.Sprintf("%s: %s", reason, why)
	}
	p.flagsRead, p.flagsWritten = f.Flags()
	p.readImplicit, p.writtenImplicit = f.Implicit()
	return p
}

// vex reports whether bridges between vector registers need VEX: legacy ones would merge into registers whose upper part
// the form writes.
func (p *planner) vex() bool { return p.Form.VEX() || p.Form.EVEX() }

// taken reports whether every instruction of the form uses a register.
func (p *planner) taken(c class, n int64) bool {
	implicit := p.readImplicit.Or(p.writtenImplicit)
	if c == general && implicit.GPR>>n&1 != 0 || c == vector && implicit.Vector>>n&1 != 0 {
		return true
	}
	return slices.ContainsFunc(p.operands, func(o asm.Operand) bool {
		oc, ok := classOf(o)
		return ok && oc == c && o.Fixed == int(n)
	})
}

func (p *planner) pool(c class) []int64 {
	return slices.DeleteFunc(slices.Clone(pools[c]), func(n int64) bool { return p.taken(c, n) })
}

// values returns the form's operands: registers and memory as place says, and constants.
func (p *planner) values(place func(class, asm.Operand) int64) []int64 {
	return forms.Values(p.Form, func(_ int, o asm.Operand) int64 {
		c, isRegister := classOf(o)
		name := p.Form.Mnemonic()
		switch {
		case isRegister:
			return place(c, o)
		case o.Class == asm.MemoryOperand:
			return place(memory, o)
		case o.Class == asm.OtherOperand:
			return 3 // ds, if a segment register
		case len(name) == 3 && slices.Contains([]string{"sh", "sa", "ro", "rc"}, name[:2]), name == "shld", name == "shrd", name == "imul":
			return shiftCount
		case o.Width >= 4:
			return 0x11
		}
		return 1
	})
}

// independent chooses different registers for all operands, from the end of each pool.
func (p *planner) independent() operands {
	used := map[class]int{}
	next := func(c class) int64 {
		pool := p.pool(c)
		if used[c]++; used[c] > len(pool) {
			return 0
		}
		return pool[len(pool)-used[c]]
	}
	o := operands{at: asm.Address{Base: baseRegister, Index: -1}, mask: maskRegister}
	o.values = p.values(func(c class, operand asm.Operand) int64 {
		switch {
		case operand.Index > 0:
			o.at.Index = int(next(vector))
		case c != memory:
			return next(c)
		}
		return 0
	})
	return o
}

// setup starts a block with values that timing depends on, outside any chain.
func (p *planner) setup(probe *Probe) {
	if p.mergesMask() {
		p.renewMask(&probe.body, p.independent())
	}
}

// mergesMask reports whether the form clears its mask, as gathers and scatters do.
func (p *planner) mergesMask() bool {
	return slices.ContainsFunc(p.operands, func(o asm.Operand) bool { return o.Index > 0 })
}

// renewMask re-enables all elements of a gather or scatter.
func (p *planner) renewMask(code *body, o operands) {
	if p.Form.EVEX() {
		code.named("kxnorw k, k, k", maskRegister, maskRegister, maskRegister)
		return
	}
	last := o.values[len(o.values)-1] // VEX: the last operand is the mask
	code.named("vpcmpeqd ymm, ymm, ymm", last, last, last)
}

func (p *planner) slots() (sources, destinations []slot) {
	for i, o := range p.operands {
		name := strconv.Itoa(i + 1)
		c, isRegister := classOf(o)
		if isRegister {
			s := slot{name, c, i, o.Fixed}
			if o.Read {
				sources = append(sources, s)
			}
			if o.Write {
				destinations = append(destinations, s)
			}
			continue
		}
		if o.Class != asm.MemoryOperand || o.Implicit && !p.advances() {
			continue
		}
		if (o.Read || o.Width == 0) && !(i == 0 && p.Form.Mnemonic() == "cmps") { // lea has no width; cmps reads by rdi, too
			sources = append(sources, slot{"address", address, i, -1})
		}
		if o.Write && o.Width > 0 {
			destinations = append(destinations, slot{"m", memory, i, -1})
			if o.Read {
				sources = append(sources, slot{"m", memory, i, -1})
			}
		}
	}
	if p.Form.Masked() && !p.mergesMask() {
		sources = append(sources, slot{"k", opmask, maskOperand, -1})
	}
	for n := range 16 {
		name := asm.Reg(n).String()
		if n == int(asm.RSP) { // decoders track it
			continue
		}
		if p.readImplicit.GPR>>n&1 != 0 {
			sources = append(sources, slot{name, general, implicitOperand, n})
		}
		if p.writtenImplicit.GPR>>n&1 != 0 {
			destinations = append(destinations, slot{name, general, implicitOperand, n})
		}
	}
	if p.writtenImplicit.Vector == 1 { // not all of them, as vzeroall does
		destinations = append(destinations, slot{"xmm0", vector, implicitOperand, 0})
	}
	if p.flagsRead != 0 {
		sources = append(sources, slot{"flags", flags, implicitOperand, -1})
	}
	if p.flagsWritten != 0 {
		destinations = append(destinations, slot{"flags", flags, implicitOperand, -1})
	}
	return sources, destinations
}

func (p *planner) latencies() {
	sources, destinations := p.slots()
	for _, d := range destinations {
		for _, s := range sources {
			switch {
			case s.class == memory && d.class != memory, s.class == address && d.class == memory:
			case s.class == address && (p.operands[s.op].Write || d != destinations[0]): // one destination is enough
			case d.class == memory && s.class != memory && p.operands[d.op].Read:
				// m to m measures an instruction that waits for its own result
			default:
				p.Probes = append(p.Probes, p.chain(s, d))
			}
		}
	}
	p.moved(sources, destinations)
}

// linksAfterSetup is enough links to hide the setup.
const linksAfterSetup = 8

// chain makes a block whose iterations wait for each other through one pair.
func (p *planner) chain(s, d slot) Probe {
	probe := Probe{Pair: s.name + " to " + d.name, Links: 1}
	p.setup(&probe)
	o := p.independent()
	chosen := s.class == d.class && s.fixed < 0 && d.fixed < 0
	switch {
	case s.class == address:
		probe.Kind = LoadLatency
		if p.operands[s.op].Width == 0 {
			probe.Kind = Latency // of a computed address
		}
		p.load(&probe, o, d)
	case d.class == memory && s.class == memory:
		probe.add(p.Form, o)
	case d.class == memory:
		probe.Kind = StoreToLoad
		p.store(&probe, o, s, d)
	case s.class == flags && d.class == flags:
		p.spread(&probe, o)
	case s.class == d.class && s.op == d.op && s.fixed == d.fixed, chosen && !p.reads(d) && !p.Form.Distinct():
		p.itself(&probe, o, s, d)
	case chosen && s.op >= 0 && d.op >= 0:
		pool := p.pool(s.class)
		for k := range 2 {
			p.assign(&o, d, pool[k])
			p.assign(&o, s, pool[1-k])
			p.restore(&probe, o)
			probe.add(p.Form, o)
		}
		probe.Links = 2
	default:
		p.bridged(&probe, o, s, d)
	}
	return probe
}

// itself makes the instruction its own successor.
func (p *planner) itself(probe *Probe, o operands, s, d slot) {
	register := p.first(s)
	p.assign(&o, s, register)
	p.assign(&o, d, register)
	if len(probe.Code) > 0 {
		probe.Links = linksAfterSetup
	}
	for i := range probe.Links {
		if i > 0 {
			p.restore(probe, o)
		}
		probe.add(p.Form, o)
	}
	if d.class == general && p.saturates() { // free the ports
		p.cross(probe, general, general, register, register)
	}
}

// restore re-enables a gather's mask, except at the start of a block.
func (p *planner) restore(probe *Probe, o operands) {
	if p.mergesMask() && len(probe.Code) > 0 {
		p.renewMask(&probe.body, o)
	}
}

func (p *planner) reads(d slot) bool { return d.op >= 0 && p.operands[d.op].Read }

// first returns a slot's register in a chain, 0 for flags.
func (p *planner) first(s slot) int64 {
	if s.fixed >= 0 {
		return int64(s.fixed)
	}
	if pool := p.pool(s.class); len(pool) > 0 {
		return pool[0]
	}
	return 0
}

// assign sets the slot's register, if it has one to choose.
func (p *planner) assign(o *operands, s slot, n int64) {
	switch {
	case s.op == maskOperand:
		o.mask = int(n)
	case s.op >= 0:
		o.values[s.op] = n
	}
}

// bridged closes a chain with other instructions.
func (p *planner) bridged(probe *Probe, o operands, s, d slot) {
	from, to := p.first(d), p.first(s)
	if s.class == d.class && s.fixed < 0 {
		to = p.pool(s.class)[1]
	}
	p.assign(&o, d, from)
	p.assign(&o, s, to)
	probe.add(p.Form, o)
	p.cross(probe, d.class, s.class, from, to)
	if s.fixed == int(asm.RCX) && p.countInCL() { // the same count again
		probe.putBack(int64(asm.RCX), other)
		probe.Others = 2
	}
}

// cross appends the bridges from one class to another.
func (p *planner) cross(probe *Probe, from, to class, src, dst int64) {
	classes := way(from, to)
	for i := 1; i < len(classes); i++ {
		target := dst
		if i < len(classes)-1 || classes[i] == flags {
			target = scratch
		}
		b := newBridge(classes[i-1], classes[i], p.vex())
		if b.from == flags {
			b.condition = condition(p.flagsWritten)
		}
		b.emit(&probe.body, target, src)
		probe.Bridges = append(probe.Bridges, b)
		src = target
	}
}

// spread measures from flags to flags with a row of instructions that write different registers.
func (p *planner) spread(probe *Probe, o operands) {
	probe.Links = p.spreadCopies()
	for _, t := range p.rotated(o, probe.Links, nil) {
		probe.add(p.Form, t)
	}
}

// load measures from an address to a destination: the loaded value goes into a general register, is cleared, and the
// address is added. Clearing and adding take a cycle each.
func (p *planner) load(probe *Probe, o operands, d slot) {
	moved, kept := int64(movedAddress), int64(baseRegister)
	if p.Form.Mnemonic() == "lods" {
		moved, kept = kept, moved
	}
	o.at.Base = movedAddress
	into := p.first(d)
	p.assign(&o, d, into)
	if name := p.Form.Name(); name == "mov r64, m64" || name == "lea r64, m" { // memory holds an address
		o.at.Base = asm.Reg(into)
		probe.add(p.Form, o)
		return
	}
	probe.add(p.Form, o)
	if d.class == general {
		probe.putBack(into, kept)
		p.cross(probe, general, general, into, moved)
	} else {
		p.cross(probe, d.class, general, into, moved)
		probe.putBack(moved, kept)
	}
	if p.flagsRead != 0 { // not the flags of putBack
		probe.named("cmp r64, r64", int64(baseRegister), other)
	}
	probe.Others = 2
}

// reloads are loads of stored values, by class and bytes: legacy and VEX.
var reloads = map[class]map[int][2]string{
	general: {1: {"movzx r32, m8"}, 2: {"movzx r32, m16"}, 4: {"mov r32, m32"}, 8: {"mov r64, m64"}},
	vector: {4: {"movd xmm, m32", "vmovd xmm, m32"}, 8: {"movq xmm, m64", "vmovq xmm, m64"}, 16: {"movups xmm, m128", "vmovups xmm, m128"},
		32: {"", "vmovups ymm, m256"}, 64: {"", "vmovups zmm, m512"}},
	mmx:    {8: {"movq mm, m64"}},
	opmask: {1: {"kmovb k, m8"}, 2: {"kmovw k, m16"}, 4: {"kmovd k, m32"}, 8: {"kmovq k, m64"}},
}

// store measures from a source through memory and back.
func (p *planner) store(probe *Probe, o operands, s, d slot) {
	via, into := s.class, p.first(s)
	if via == flags {
		via, into = general, scratch
	}
	width := p.operands[d.op].Width
	names := reloads[via][width]
	name := names[0]
	if p.vex() && names[1] != "" {
		name = names[1]
	}
	if name == "" {
		probe.err = fmt.Errorf("there is no load of %d bytes into a %s register", width, via)
		return
	}
	p.assign(&o, s, into)
	probe.add(p.Form, o)
	at := asm.Address{Base: baseRegister, Index: -1}
	if p.advances() {
		at.Base, at.Disp = movedAddress, -int32(width)
	}
	probe.namedAt(name, at, into, 0)
	if s.class == flags {
		p.cross(probe, general, flags, into, 0)
	}
}

// moved adds the chain of a register move, which renaming may eliminate.
func (p *planner) moved(sources, destinations []slot) {
	if len(sources) != 1 || len(destinations) != 1 || !strings.HasPrefix(strings.TrimPrefix(p.Form.Mnemonic(), "v"), "mov") {
		return
	}
	s, d := sources[0], destinations[0]
	if s.class != d.class || s.op < 0 || s.class == memory || s.class == address || d.fixed >= 0 || s.fixed >= 0 || p.reads(d) {
		return
	}
	probe := Probe{Pair: s.name + " to " + d.name + " of another register", Links: 2}
	o, pool := p.independent(), p.pool(s.class)
	for k := range 2 {
		o.values[d.op], o.values[s.op] = pool[k], pool[1-k]
		probe.add(p.Form, o)
	}
	p.Probes = append(p.Probes, probe)
}

// overwritten repeats an instruction whose one destination is a register that it only writes: if that takes longer than
// with other destinations, the old value is waited for.
func (p *planner) overwritten() {
	_, destinations := p.slots()
	destinations = slices.DeleteFunc(destinations, func(d slot) bool { return d.class == flags })
	if len(destinations) != 1 || destinations[0].op < 0 || destinations[0].class == memory || p.reads(destinations[0]) ||
		divides(p.Form.Mnemonic()) || p.dividesFloats() || p.Form.X87() || p.advances() || p.stackBytes() != 0 {
		return
	}
	name := destinations[0].name
	probe := Probe{Kind: Output, Pair: name + " to " + name + " as an output dependency", Links: 1}
	probe.add(p.Form, p.independent())
	p.Probes = append(p.Probes, probe)
}
