package hunt

import (
	"encoding/hex"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
)

type use map[string]int

// usual counts the most frequent mnemonics per 1,000 instructions of compiled open-source programs (25,745 blocks). It
// is used if there is no corpus.
var usual = use{
	"mov": 365, "add": 70, "lea": 55, "vmovsd": 53, "cmp": 49, "xor": 43, "push": 37, "test": 35, "sub": 27, "pop": 26, "movzx": 19, "and": 16,
	"shl": 12, "movsxd": 11, "shr": 10, "vfmadd231pd": 9, "movdqu": 9, "vmulsd": 9, "rorx": 8, "lddqu": 8, "nop": 7, "imul": 7, "or": 7, "movaps": 7,
	"vaddsd": 6, "vmovups": 5, "vmovapd": 3, "vpermpd": 3, "sar": 3, "vmovddup": 3, "vfmadd231sd": 3, "adc": 3, "vucomisd": 2,
	"vpaddq": 2, "movdqa": 2, "cdqe": 2,
	"vxorpd": 2, "movsd": 2, "mulpd": 2, "vmovdqu": 2, "neg": 1, "mul": 1, "movsx": 1, "vandpd": 1, "vpmuludq": 1, "vsubsd": 1, "sete": 1, "vmulpd": 1,
}

func (u *use) count(corpus []string) {
	*u = use{}
	for _, text := range corpus {
		insts, _ := asm.DecodeHex(text) // empty if invalid
		for i := range insts {
			(*u)[insts[i].Mnemonic]++
		}
	}
	if len(*u) == 0 {
		*u = usual
	}
}

// Registers of generated blocks: few, so that instructions depend on each other. Bases of addresses are never written.
var (
	generalPool = []int64{0, 1, 2, 3, 8, 9}
	basePool    = []asm.Reg{asm.RSI, asm.RDI, asm.R12, asm.R13}
)

const (
	longestGenerated = 5
	vectorPool       = 5
)

// generate makes blocks: random ones by frequency of use, and classes with an instruction replaced or added.
func (h *hunter) generate(n int) (list []string) {
	weights := h.formWeights()
	if len(weights) == 0 || weights[len(weights)-1] == 0 {
		return nil
	}
	for tries := 0; len(list) < n && tries < 4*n; tries++ {
		var code []byte
		if len(h.classes) > 0 && h.rng.IntN(3) == 0 {
			code = h.mutation(weights)
		} else {
			for range 1 + h.rng.IntN(longestGenerated) {
				code = append(code, h.instruction(weights)...)
			}
		}
		if text := hex.EncodeToString(code); h.outcomes[Case{Hex: text}] == nil && newBlock(text) != nil {
			list = append(list, text)
		}
	}
	return list
}

// formWeights returns cumulative weights of the forms. Forms of a mnemonic share its use; unused forms get a little.
func (h *hunter) formWeights() []float64 {
	total := 0
	for _, n := range h.use {
		total += n
	}
	sums := make([]float64, len(h.Usable.list))
	sum := 0.0
	for i := range h.Usable.list {
		name := h.Usable.list[i].Mnemonic()
		const unused = 0.2 // share drawn from all forms alike
		sum += (1-unused)*float64(h.use[name])/float64(max(1, total))/float64(len(h.Usable.byMnemonic[name])) + unused/float64(len(sums))
		sums[i] = sum
	}
	return sums
}

func (h *hunter) instruction(weights []float64) []byte {
	at := h.rng.Float64() * weights[len(weights)-1]
	n := 0
	for n < len(weights)-1 && weights[n] < at {
		n++
	}
	f := &h.Usable.list[n]
	address := asm.Address{Base: basePool[h.rng.IntN(len(basePool))], Index: -1, Disp: int32(8 * h.rng.IntN(4))}
	gather := false // which needs a vector of indices
	values := forms.Values(f, func(_ int, o asm.Operand) int64 {
		switch {
		case gather:
			return 0
		case o.Class == asm.GPROperand:
			return generalPool[h.rng.IntN(len(generalPool))]
		case o.Class == asm.ImmediateOperand:
			return int64(1 + h.rng.IntN(7))
		}
		gather = o.Index > 0
		return int64(h.rng.IntN(vectorPool))
	})
	code, err := f.Encode(values, address, 1)
	if err != nil || gather {
		return nil
	}
	return code
}

// mutation replaces an instruction of a class by a random one, or adds one.
func (h *hunter) mutation(weights []float64) []byte {
	b := h.classes[h.rng.IntN(len(h.classes))].pattern
	at, more := h.rng.IntN(len(b.insts)), h.rng.IntN(2) == 0
	var code []byte
	for i := range b.insts {
		if i == at {
			code = append(code, h.instruction(weights)...)
		}
		if i != at || more {
			code = append(code, b.insts[i].Bytes...)
		}
	}
	return code
}
