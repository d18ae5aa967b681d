package dataset

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// tokensColumn holds the tokens of split blocks, for training models.
const tokensColumn = "tokens"

// tokens formats a block's instructions, each as text, form, reads and writes:
//
//	add rax, qword ptr [rsp+0x8]|add r64, m64|rax rsp [rsp+0x8]|rax cf of zf;…
//
// Readers need no table of operands to see which instruction depends on which.
func tokens(block string) string {
	insts, err := asm.DecodeHex(block)
	if err != nil {
		return ""
	}
	var list []string
	for i := range insts {
		in := &insts[i]
		reads, writes := in.Dataflow()
		read, written := values(reads), values(writes)
		for _, m := range in.Mem {
			if m.Read {
				read = append(read, address(m))
			}
			if m.Write {
				written = append(written, address(m))
			}
		}
		list = append(list, strings.Join([]string{in.Text(), in.Shape(), strings.Join(read, " "), strings.Join(written, " ")}, "|"))
	}
	return strings.Join(list, ";")
}

// values names registers in full, whichever part an operand uses, and represents flags that cores rename together
// by one of them.
func values(v asm.Values) (names []string) {
	add := func(set uint64, name func(int) string) {
		for ; set != 0; set &= set - 1 {
			names = append(names, name(bits.TrailingZeros64(set)))
		}
	}
	add(uint64(v.GPR), func(n int) string { return asm.Reg(n).String() })
	add(uint64(v.Vector), func(n int) string { return fmt.Sprintf("v%d", n) })
	add(uint64(v.Opmask), func(n int) string { return fmt.Sprintf("k%d", n) })
	if v.X87 {
		names = append(names, "x87")
	}
	for _, f := range []struct {
		flags asm.Flags
		name  string
	}{{asm.Carry, "cf"}, {asm.Overflow, "of"}, {asm.Zero | asm.Sign | asm.Parity | asm.Adjust, "zf"}} {
		if v.Flags&f.flags != 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// address formats an address; equal sums give equal text.
func address(m asm.Mem) string {
	var parts []string
	if m.Base != asm.NoRegister {
		parts = append(parts, m.Base.String())
	}
	if m.Index != asm.NoRegister {
		parts = append(parts, fmt.Sprintf("%s*%d", m.Index, m.Scale))
	}
	text := strings.Join(parts, "+")
	if m.Disp != 0 || text == "" {
		text += fmt.Sprintf("%+#x", m.Disp)
	}
	return "[" + map[asm.Segment]string{asm.FS: "fs:", asm.GS: "gs:"}[m.Segment] + text + "]"
}
