package assemble

import (
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"github.com/bbprof/bbprof/asm"
)

type Syntax string

const (
	Intel Syntax = "intel" // as in bbprof's own tables
	ATT   Syntax = "att"   // GNU's: source before destination
	Go    Syntax = "go"    // Go's assembler
)

func Syntaxes() []Syntax { return []Syntax{Intel, ATT, Go} }

// mark follows an instruction that is in Intel syntax because no other writer here supports it.
const mark = " (intel)"

func Text(in *asm.Inst, syntax Syntax) string {
	if syntax == Intel || syntax == "" {
		return in.Text()
	}
	x, ok := decode(in)
	switch {
	case !ok:
		return in.Text() + mark
	case syntax == ATT:
		return x86asm.GNUSyntax(x, 0, nil)
	}
	return x86asm.GoSyntax(x, 0, nil)
}

// Block formats a block's instructions, separated by semicolons; "" if it is not code.
func Block(code []byte, syntax Syntax) string {
	insts, err := asm.Decode(code)
	if err != nil {
		return ""
	}
	var s strings.Builder
	for i := range insts {
		if i > 0 {
			s.WriteString("; ")
		}
		s.WriteString(Text(&insts[i], syntax))
	}
	return s.String()
}

// decode decodes an instruction with x86asm, and reports whether both decoders agree.
func decode(in *asm.Inst) (x86asm.Inst, bool) {
	x, err := x86asm.Decode(in.Bytes, 64)
	if err != nil || x.Op == 0 || x.Len != len(in.Bytes) || !sameName(x, in) {
		return x, false
	}
	for i, arg := range x.Args {
		m, ok := arg.(x86asm.Mem)
		if !ok {
			continue
		}
		if in.RIPDisp > 0 && m.Base != x86asm.RIP { // x86asm loses it after VEX and EVEX
			return x, false
		}
		if m.Disp > 1<<31-1 && m.Disp < 1<<32 { // negative ones are zero-extended
			m.Disp = int64(int32(m.Disp))
			x.Args[i] = m
		}
	}
	return x, true
}

// sameName compares mnemonics: x86asm decodes some encodings as another instruction.
func sameName(x x86asm.Inst, in *asm.Inst) bool {
	op := strings.ToLower(x.Op.String())
	if op == in.Mnemonic {
		return true
	}
	words := strings.Fields(x86asm.IntelSyntax(x, 0, nil))
	return slices.Contains(words, in.Mnemonic)
}
