package asm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// describe writes an access on one line, for tables and golden files: direction and width, then the address, then
// whatever else is set.
func describe(m Mem) string {
	var parts []string
	part := func(on bool, format string, args ...any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	part(m.Base != NoRegister, "%v", m.Base)
	part(m.Index != NoRegister, "%v*%d", m.Index, m.Scale)
	part(m.BitOffset != NoRegister, "%v bits of %d", m.BitOffset, m.Bits)
	part(m.Disp != 0 || len(parts) == 0, "%#x", m.Disp)
	direction := map[[2]bool]string{{true, false}: "r", {false, true}: "w", {true, true}: "rw"}[[2]bool{m.Read, m.Write}]
	segment := []string{"", "fs:", "gs:"}[m.Segment]
	parts = []string{fmt.Sprintf("%s%d %s[%s]", direction, m.Width, segment, strings.Join(parts, "+"))}
	part(m.AddrSize != 64, "addr%d", m.AddrSize)
	part(m.Implicit, "implicit")
	part(m.String, "%s", []string{"string", "rep", "repe", "repne"}[m.Repeat])
	part(m.Elements != 0, "%d elements, index %d", m.Elements, m.IndexSize)
	part(m.Mask != NoRegister, "mask %v", m.Mask)
	return strings.Join(parts, " ")
}

// mustDecode decodes a block of a test table.
func mustDecode(t *testing.T, hexBytes string) []Inst {
	t.Helper()
	block := require.Hex(t, hexBytes)
	return require.Get(Decode(block))(t)
}

func TestMemoryAccesses(t *testing.T) {
	for _, row := range require.Table(t, "memory.txt") {
		in := mustDecode(t, row[0])[0]
		got := []string{row[0], in.Text()}
		for _, m := range in.Mem {
			got = append(got, describe(m))
		}
		require.Equal(t, row[0], row, got)
	}
}

func TestAlign(t *testing.T) {
	for want, codes := range map[int]string{
		// mov, between registers, movups, movdqu, lddqu, addss, pcmpistri, palignr and movntq of mmx, cvtps2pd, vaddps, cmpxchg8b
		0: "488903 0f28c1 0f1003 f30f6f03 f20ff003 f30f5803 660f3a630300 0f3a0f0300 0fe703 0f5a03 c5fc5803 0fc70b",
		// movaps, movdqa, addps, palignr, movntps, cvtpd2ps, cvttpd2pi, vmovaps, cmpxchg16b, fxsave
		16: "0f2803 660f6f03 0f5803 660f3a0f0300 0f2b03 660f5a03 660f2c03 c5f82803 480fc70b 0fae03",
		32: "c5fc2803 c5fde703 c4e27d2a03",     // vmovaps, vmovntdq, vmovntdqa
		64: "62f17c482803 62f17c492803 0fae23", // vmovaps, masked too, xsave
	} {
		for code := range strings.FieldsSeq(codes) {
			require.Equal(t, code, want, mustDecode(t, code)[0].Align)
		}
	}
}

// FuzzAccesses: what a log holds is read without a failure, whatever it is. Counts of repeated instructions are
// lengths, and none of them may become a loop or an allocation.
func FuzzAccesses(f *testing.F) {
	for _, seed := range []string{"488b03", "f3a4", "f3a6", "c4e26990048b", "660ff7c1", "480fa303", "d7", "fdf348ab"} {
		code := require.Hex(f, seed)
		f.Add(code, []byte{1, 2, 3})
		f.Add(code, bytes.Repeat([]byte{0xff}, 64))
	}
	f.Fuzz(func(t *testing.T, code, log []byte) {
		insts, err := Decode(code)
		if err != nil || Refuse(insts) != nil || len(insts) > 64 {
			return
		}
		p, err := NewProbe(insts, Features{AVX: true, AVX512: true, AVX512BW: true}, 0)
		if err != nil {
			return
		}
		const copies = 3
		log = append(log, make([]byte, copies*p.LogSize())...)
		for _, a := range p.Accesses(log, copies, &Regs{}) {
			if a.Copy < 0 || a.Copy >= copies || a.Inst < 0 || a.Inst >= len(insts) {
				t.Errorf("%x: %+v", code, a)
			}
		}
	})
}
