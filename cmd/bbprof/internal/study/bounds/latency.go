package bounds

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/cpu"
)

// family is a group of cores with equal latencies, as far as they are used here.
type family int

const (
	skylake family = iota // Skylake to Ice Lake
	goldenCove
	redwoodCove
	zen // Zen 3 to Zen 5
	families
)

func familyOf(core string) family {
	switch cpu.Name(core) {
	case cpu.GoldenCove:
		return goldenCove
	case cpu.RedwoodCove:
		return redwoodCove
	case cpu.Zen, cpu.Zen2, cpu.Zen3, cpu.Zen4, cpu.Zen5:
		return zen
	}
	return skylake
}

// unknownLatency stands for that of an instruction that is not in the table: longer than any that is,
// so that the way through it is the one that is named.
const unknownLatency = 30

// latencies are those from a register to a register, in cycles, by family. Sources: Intel Optimization
// Reference Manual, appendix D ("Instruction Latency and Throughput"); AMD Software Optimization Guides
// for families 19h and 1Ah, the spreadsheets of latencies; Fog, instruction_tables.pdf; uops.info. They
// serve to choose a cycle and to stand beside what is measured; nothing measured rests on them.
var latencies = func() map[string][families]float64 {
	m := map[string][families]float64{}
	for _, row := range []struct {
		cycles [families]float64
		names  string
	}{
		{[...]float64{1, 1, 1, 1}, "add sub and or xor not neg inc dec lea adc sbb cmp test shl shr sar rol ror rorx shlx shrx sarx andn blsi blsr blsmsk bt bts btr btc movsx movsxd movzx cbw cwde cdqe cwd cdq cqo clc stc cmc"},
		{[...]float64{0, 0, 0, 0}, "mov movaps movapd movdqa movdqu movups movupd vmovaps vmovapd vmovdqa vmovdqu vmovups vmovupd vmovdqa32 vmovdqa64 vmovdqu32 vmovdqu64 push"},
		{[...]float64{3, 3, 3, 3}, "imul mul mulx shld shrd"},
		{[...]float64{3, 3, 3, 1}, "popcnt lzcnt tzcnt bsf bsr"},
		{[...]float64{3, 3, 3, 3}, "pdep pext crc32"},
		{[...]float64{2, 2, 2, 1}, "bswap xchg"},
		{[...]float64{1, 1, 1, 1}, "pop paddb paddw paddd paddq psubb psubw psubd psubq pand pandn por pxor pminub pmaxub pminsw pmaxsw pavgb pavgw pcmpeqb pcmpeqw pcmpeqd pcmpgtb pcmpgtw pcmpgtd " +
			"andps andpd andnps andnpd orps orpd xorps xorpd punpcklbw punpcklwd punpckldq punpcklqdq punpckhbw punpckhwd punpckhdq punpckhqdq pshufd pshuflw pshufhw pshufb shufps shufpd " +
			"unpcklps unpcklpd unpckhps unpckhpd packsswb packssdw packuswb packusdw palignr pabsb pabsw pabsd psllw pslld psllq psrlw psrld psrlq psraw psrad pslldq psrldq movss movsd movq blendps blendpd pblendw"},
		{[...]float64{4, 3, 3, 3}, "addps addpd addss addsd subps subpd subss subsd"},
		{[...]float64{4, 4, 3, 3}, "mulps mulpd mulss mulsd"},
		{[...]float64{4, 4, 4, 2}, "minps minpd minss minsd maxps maxpd maxss maxsd cmpps cmppd cmpss cmpsd"},
		{[...]float64{5, 5, 5, 3}, "pmullw pmulhw pmulhuw pmuludq pmuldq pmaddwd pmaddubsw pmulhrsw"},
		{[...]float64{10, 10, 10, 3}, "pmulld"},
	} {
		for name := range strings.FieldsSeq(row.names) {
			m[name] = row.cycles
		}
	}
	return m
}()

// Loading from L1D, and from a store that has not reached it yet: a general register and a vector.
var (
	loadLatency    = [families]float64{5, 5, 5, 4}
	vectorLoad     = [families]float64{6, 7, 7, 7}
	forwardLatency = [families]float64{4, 5, 5, 7}
)

// latency is how long an instruction takes to hand on what reaches it by a dependency, as
// documented; ok is false if it is not in the table.
func latency(in *asm.Inst, d dependency, core string) (cycles float64, ok bool) {
	f := familyOf(core)
	name := strings.TrimPrefix(in.Mnemonic, "v")
	of, ok := latencies[name]
	if !ok {
		if of, ok = latencies[in.Mnemonic]; !ok && (strings.HasPrefix(name, "cmov") || strings.HasPrefix(name, "set")) {
			of, ok = [families]float64{1, 1, 1, 1}, true
		}
		if !ok && strings.HasPrefix(name, "fm") || strings.HasPrefix(name, "fnm") {
			of, ok = [families]float64{4, 4, 4, 4}, true
		}
	}
	cycles = of[f]
	loads, _ := in.Accesses()
	switch {
	case d.memory:
		return cycles + forwardLatency[f], ok
	case loads && addresses(in, d.value):
		wide := slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Width > 8 })
		if _, writes := in.Dataflow(); wide || writes.Vector != 0 {
			return cycles + vectorLoad[f], ok
		}
		return cycles + loadLatency[f], ok
	}
	return cycles, ok
}

// addresses reports whether an instruction computes the address of a load from a value.
func addresses(in *asm.Inst, v asm.Values) bool {
	for _, m := range in.Mem {
		for _, r := range []asm.Register{m.Base, m.Index} {
			if n, ok := r.GPR(); ok && m.Read && v.GPR>>n&1 != 0 && in.Mnemonic != "pop" && in.Mnemonic != "push" {
				return true
			}
		}
	}
	return false
}

func latencyText(cycles float64, ok bool) string {
	if !ok {
		return "?"
	}
	return strconv.FormatFloat(cycles, 'g', 3, 64)
}
