package instructions

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
)

// An otherway is another way to measure some forms: one that published tables take, knowingly or not, and that gives
// their number. It is listed beside the form's own numbers, so that [Compare] finds the cause of a difference.
type otherway struct {
	note   string
	forms  string // expression for their names
	probes func(p *planner, note string) []Probe
}

// Between what these measure and the form's own number lie mixtures of the two: rows that the op cache serves in
// part, chains through two unlike adders.
const (
	byDecoders  = "by the decoders"
	besideKands = "beside 2 kandw k, k, k"
)

// Published tables measure these forms so; docs/instructions.md has the causes.
var otherways = []otherway{
	{byDecoders, `^({evex} )?v?ps(rl|ra|ll)[wdq] xmm, xmm(, xmm)?$|^(movdq2q mm, xmm|fnop|cqo|setb r8|cmovne r\d+, r\d+)$|^(vcvtss2sh xmm, xmm|vpmovqd xmm), xmm$|` +
		`^(imul r16, r16|mov r16|adc r16|sbb r16), i16$|^(not|neg) r16$`, (*planner).decoded},
	{"each of the next register, " + byDecoders, `^mov[au]ps xmm, xmm$`, (*planner).ofNextRegister},
	{besideKands, `^v(add|sub)p[sd] zmm, zmm, zmm$`, (*planner).besideKands},
	{"of one register", `^vcvtne2ps2bf16 .mm, .mm, .mm$|^({evex} )?vpcmpgt[bwdq] k, .mm, .mm$`, (*planner).ofOneRegister},
	{"of a constant of many bits", `^add (rax|r64), i32$|^mov r64, i64$`, (*planner).ofLongConstant},
	{"of low and high bytes in turn", `^(adc|sbb) r8, i8$`, (*planner).ofHighBytes},
	{"of two that wait for each other", `^xchg r\d+, r\d+$`, (*planner).ofOnePair},
	{"of r32", `^vcvtsi2ss xmm, xmm, r64$`, (*planner).of32Bits},
	{"of st(0) to st(7) in turn", `^fcmov`, (*planner).ofWholeStack},
	{"of itself, half ones, half long fractions", `^sqrt[sp]d xmm, xmm$`, (*planner).ofMixedNumbers},
}

var otherwayForms = sync.OnceValue(func() (list []*regexp.Regexp) {
	for _, way := range otherways {
		list = append(list, regexp.MustCompile(way.forms))
	}
	return list
})

// otherwise plans what other tables measure of the form.
func (p *planner) otherwise() {
	for i, way := range otherways {
		if otherwayForms()[i].MatchString(p.Form.Name()) {
			p.Probes = append(p.Probes, way.probes(p, way.note)...)
		}
	}
}

// of is a block of instructions with these operands, as a throughput.
func (p *planner) of(note string, list []operands) []Probe {
	probe := p.parallel(note, list, nil)
	probe.Kind = OtherThroughput
	return []Probe{probe}
}

// decoded are the form's chain and its independent instructions, from the legacy decoders.
func (p *planner) decoded(note string) (list []Probe) {
	for _, probe := range p.Probes {
		switch {
		case probe.Kind == Throughput && probe.Note == "":
			probe.Kind = OtherThroughput
		case probe.Kind == Latency && probe.Pair == "1 to 1" && strings.HasSuffix(p.Form.Name(), "i16"):
			probe.Kind = OtherLatency
		default:
			continue
		}
		probe.Note, probe.FrontEnd = note, profiler.Decode
		list = append(list, probe)
	}
	return list
}

// besideKands keeps port 0 busy, so that a chain goes through the adder of port 5, which forwards to itself.
func (p *planner) besideKands(note string) (list []Probe) {
	for _, probe := range p.Probes {
		if probe.Kind == Latency && probe.Links == 1 {
			code := body{code: slices.Clone(probe.Code), err: probe.err}
			for destination := range int64(2) {
				code.named("kandw k, k, k", 1+destination, 6, 7)
			}
			probe.Kind, probe.Note, probe.Code, probe.err = OtherLatency, note, code.code, code.err
			list = append(list, probe)
		}
	}
	return list
}

func (p *planner) ofOneRegister(note string) []Probe {
	o := p.independent()
	last := len(o.values) - 1
	o.values[last-1] = o.values[last]
	if c, _ := classOf(p.operands[0]); c == opmask {
		return p.of(note, p.rotated(o, p.spreadCopies(), nil))
	}
	o.values[0] = o.values[last]
	var code body
	code.add(p.Form, o)
	return []Probe{{Kind: OtherLatency, Pair: "2 and 3 to 1", Note: note, Code: code.code, Links: 1, err: code.err}}
}

func (p *planner) ofLongConstant(note string) []Probe {
	o := p.independent()
	o.values[1] = 0x1122_3344_5566_7788
	if p.operands[1].Width == 4 {
		o.values[1] = 0x1122_3344
	}
	return p.of(note, p.rotated(o, p.spreadCopies(), nil))
}

// ofHighBytes is of al and ah, whose encodings forms do not have.
func (p *planner) ofHighBytes(note string) []Probe {
	const group, al, ah = 0x80, 0xc0, 0xc4 // opcode of an operation with a byte, ModRM with 0 for its number
	number := map[string]byte{"adc": 2 << 3, "sbb": 3 << 3}[p.Form.Mnemonic()]
	return []Probe{{Kind: OtherThroughput, Note: note, Code: []byte{group, al | number, 1, group, ah | number, 1}, Links: 2}}
}

func (p *planner) ofOnePair(note string) []Probe {
	o, swapped := p.independent(), p.independent()
	slices.Reverse(swapped.values)
	return p.of(note, []operands{o, swapped})
}

func (p *planner) ofNextRegister(note string) []Probe {
	const registers = 16
	var list []operands
	for i := range int64(registers) {
		list = append(list, operands{values: []int64{i, (i + 1) % registers}})
	}
	probes := p.of(note, list)
	probes[0].FrontEnd = profiler.Decode
	return probes
}

// of32Bits is the form with a register of half the width.
func (p *planner) of32Bits(note string) []Probe {
	form := asm.FormNamed(strings.Replace(p.Form.Name(), "r64", "r32", 1))
	if form == nil {
		return nil
	}
	half := planner{Plan: Plan{Form: form}, operands: form.Operands()}
	return half.of(note, half.rotated(half.independent(), half.spreadCopies(), nil))
}

// ofWholeStack has every eighth wait for itself.
func (p *planner) ofWholeStack(note string) []Probe {
	var list []operands
	for i := range int64(8) {
		list = append(list, operands{values: []int64{0, i}})
	}
	return p.of(note, list)
}

// ofMixedNumbers are roots of registers that hold their own root: 1, and the largest number below it.
func (p *planner) ofMixedNumbers(note string) []Probe {
	const one, belowOne, registers = 0x3ff0_0000_0000_0000, 0x3fef_ffff_ffff_ffff, 8
	var list []operands
	values := map[int64]uint64{}
	for i := range int64(registers) {
		list = append(list, operands{values: []int64{i, i}})
		if values[i] = one; i < registers/2 {
			values[i] = belowOne
		}
	}
	probes := p.of(note, list)
	p.hold(&probes[0], values, nil, 0)
	return probes
}
