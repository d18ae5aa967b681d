package bounds

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/cpu"
)

type cycles = [cpu.LatencyColumns]float64

// unknownLatency stands for an instruction that is not in the table: it exceeds all known ones, so that the path
// through it is the one named.
const unknownLatency = 30

// latencies holds register-to-register latencies in cycles for the cores in column order: Skylake, Golden Cove, Redwood
// Cove, Lion Cove, Gracemont, Skymont, Zen. Sources: Intel Optimization Reference Manual, appendix D ("Instruction
// Latency and Throughput"); AMD Software Optimization Guides for families 19h and 1Ah, the latency spreadsheets; Fog,
// instruction_tables.pdf; uops.info; for Lion Cove, Gracemont and Skymont InstLatx64's dumps of an Alder Lake and an
// Arrow Lake. They only choose which cycle to name and are shown next to measurements; no measurement depends on them.
var latencies = func() map[string]cycles {
	m := map[string]cycles{}
	for _, row := range []struct {
		cycles cycles
		names  string
	}{
		{cycles{1, 1, 1, 1, 2, 2, 1}, "adc sbb shlx shrx sarx"},
		{cycles{1, 1, 1, 1, 3, 3, 1}, "blsi blsr blsmsk"},
		{cycles{1, 1, 1, 1, 1, 1, 1}, "add sub and or xor not neg inc dec lea cmp test shl shr sar rol ror rorx andn bt " +
			"bts btr btc movsx movsxd movzx cbw cwde cdqe cwd cdq cqo clc stc cmc"},
		{cycles{}, "mov movaps movapd movdqa movdqu movups movupd vmovaps vmovapd vmovdqa vmovdqu vmovups vmovupd vmovdqa32 " +
			"vmovdqa64 vmovdqu32 vmovdqu64 push"},
		{cycles{3, 3, 3, 3, 5, 4, 3}, "imul mul"},
		{cycles{3, 3, 3, 5, 6, 5, 3}, "mulx"},
		{cycles{3, 3, 3, 4, 12, 13, 3}, "shld shrd"},
		{cycles{3, 3, 3, 4, 3, 3, 1}, "popcnt lzcnt tzcnt bsf bsr"},
		{cycles{3, 3, 3, 4, 3, 3, 3}, "pdep pext crc32"},
		{cycles{2, 2, 2, 2, 1, 1, 1}, "bswap"},
		{cycles{2, 2, 2, 2, 3.5, 2.4, 1}, "xchg"},
		{cycles{1, 1, 1, 1, 1, 1, 1}, "pop paddb paddw paddd paddq psubb psubw psubd psubq pand pandn por pxor pminub " +
			"pmaxub pminsw pmaxsw pavgb pavgw pcmpeqb pcmpeqw pcmpeqd pcmpgtb pcmpgtw pcmpgtd " +
			"andps andpd andnps andnpd orps orpd xorps xorpd punpcklbw punpcklwd punpckldq punpcklqdq punpckhbw punpckhwd " +
			"punpckhdq punpckhqdq pshufd pshuflw pshufhw pshufb shufps shufpd " +
			"unpcklps unpcklpd unpckhps unpckhpd packsswb packssdw packuswb packusdw palignr pabsb pabsw pabsd psllw pslld " +
			"psllq psrlw psrld psrlq psraw psrad pslldq psrldq movss movsd movq blendps blendpd pblendw"},
		{cycles{4, 3, 3, 2, 3, 2, 3}, "addps addpd addss addsd subps subpd subss subsd"},
		{cycles{4, 4, 3, 3, 4, 3, 3}, "mulps mulpd mulss mulsd"},
		{cycles{4, 4, 4, 4, 3, 2, 2}, "minps minpd minss minsd maxps maxpd maxss maxsd cmpps cmppd cmpss cmpsd"},
		{cycles{5, 5, 5, 4, 3, 3, 3}, "pmullw pmulhw pmulhuw pmuludq pmuldq pmaddwd pmaddubsw pmulhrsw"},
		{cycles{10, 10, 10, 6, 4, 4, 3}, "pmulld"},
	} {
		for name := range strings.FieldsSeq(row.names) {
			m[name] = row.cycles
		}
	}
	return m
}()

// Latency of loads from L1D, and of store forwarding: general register and vector.
var (
	loadLatency    = cycles{5, 5, 5, 4, 3, 4, 4}
	vectorLoad     = cycles{6, 7, 7, 0, 0, 0, 7} // 0: unknown
	forwardLatency = cycles{4, 5, 5, 5, 0, 0, 7} // 0: a chain of add [m64], r64 takes one cycle per link
	fused          = cycles{4, 4, 4, 4, 6, 4, 4} // multiply-add
)

// families holds what all mnemonics with a prefix take.
var families = map[string]cycles{"cmov": {1, 1, 1, 1, 2, 2, 1}, "set": {1, 1, 1, 1, 1, 1, 1}, "fm": fused, "fnm": fused}

// latency returns the documented latency from a dependency through an instruction; ok is false if it is not in the
// table.
func latency(in *asm.Inst, d dependency, core string) (took float64, ok bool) {
	column := cpu.Of(cpu.Name(core)).Latencies
	name := strings.TrimPrefix(in.Mnemonic, "v")
	of, ok := latencies[name]
	if !ok {
		of, ok = latencies[in.Mnemonic]
	}
	for prefix, cycles := range families {
		if !ok && strings.HasPrefix(name, prefix) {
			of, ok = cycles, true
		}
	}
	took = of[column]
	loads, _ := in.Accesses()
	switch {
	case d.memory:
		return took + forwardLatency[column], ok
	case loads && addresses(in, d.value):
		wide := slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Width > 8 })
		if _, writes := in.Dataflow(); wide || writes.Vector != 0 {
			return took + vectorLoad[column], ok && vectorLoad[column] > 0
		}
		return took + loadLatency[column], ok
	}
	return took, ok
}

// addresses reports whether an instruction computes a load's address from a value.
func addresses(in *asm.Inst, v asm.Values) bool {
	return in.Mnemonic != "pop" && in.Mnemonic != "push" &&
		slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Read && m.GPRs()&v.GPR != 0 })
}

func latencyText(cycles float64, ok bool) string {
	if !ok {
		return "?"
	}
	return strconv.FormatFloat(cycles, 'g', 3, 64)
}
