package asm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

var relative = regexp.MustCompile(`rip([+-]0x[0-9a-f]+)?|\.[+-]0x[0-9a-f]+`)

// readBack decodes code that stands at base, one instruction an entry, with absolute addresses and no sizes of memory.
// The decoder is held to objdump.
func readBack(t *testing.T, base uint64, code []byte) (out []string) {
	t.Helper()
	for _, in := range require.Get(Decode(code))(t) {
		next := base + uint64(in.Offset+len(in.Bytes))
		text := relative.ReplaceAllStringFunc(pointer.ReplaceAllString(in.Text(), ""), func(distance string) string {
			n, _ := strconv.ParseInt(strings.TrimLeft(distance, "rip."), 0, 64) // 0 for rip alone
			return fmt.Sprintf("%#x", next+uint64(n))
		})
		out = append(out, text)
	}
	return out
}

// Code stands between what it refers to.
const (
	stubAt = 0x6000_0000_0000
	codeAt = 0x6000_0080_0000
	endAt  = 0x6000_00e0_0000
)

func TestEmitterInstructions(t *testing.T) {
	const base = codeAt + 0x123
	var e *Emitter
	check := func(emit func(), format string, args ...any) {
		t.Helper()
		e = NewEmitter(base)
		emit()
		got, want := readBack(t, base, e.Bytes()), fmt.Sprintf(format, args...)
		if len(got) != 1 || got[0] != want || e.PC() != base+uint64(len(e.Bytes())) {
			t.Errorf("% x reads as %q, want %q; PC is %#x", e.Bytes(), got, want, e.PC())
		}
	}
	for want, emit := range map[string]func(*Emitter){
		"lfence": (*Emitter).Lfence, "rdtsc": (*Emitter).Rdtsc, "rdpmc": (*Emitter).Rdpmc, "syscall": (*Emitter).Syscall, "int3": (*Emitter).Int3,
		"popf": (*Emitter).Popf, "fninit": (*Emitter).Fninit,
	} {
		check(func() { emit(e) }, "%s", want)
	}
	for _, to := range []uint64{base, base - 126} {
		check(func() { e.JnzShort(to) }, "jne %#x", to)
	}
	for _, addr := range []uint64{stubAt, codeAt, endAt} {
		check(func() { e.Jmp(addr) }, "jmp %#x", addr)
		check(func() { e.Jnz(addr) }, "jne %#x", addr)
		check(func() { e.JmpMem(addr) }, "jmp [%#x]", addr)
		check(func() { e.IncMem(addr) }, "inc [%#x]", addr)
		check(func() { e.DecMem(addr) }, "dec [%#x]", addr)
		check(func() { e.LockNot(addr) }, "lock not [%#x]", addr)
		check(func() { e.Ldmxcsr(addr) }, "ldmxcsr [%#x]", addr)
		check(func() { e.Frstor(addr) }, "frstor [%#x]", addr)
		for r := range Reg(16) {
			check(func() { e.Load(r, addr) }, "mov %s, [%#x]", r, addr)
			check(func() { e.Store(addr, r) }, "mov [%#x], %s", addr, r)
			check(func() { e.Lea(r, addr) }, "lea %s, [%#x]", r, addr)
			check(func() { e.SubMem(r, addr) }, "sub %s, [%#x]", r, addr)
			check(func() { e.CmpMem(r, addr) }, "cmp %s, [%#x]", r, addr)
		}
	}
	for r := range Reg(16) {
		check(func() { e.AddImm8(r, 127) }, "add %s, 0x7f", r)
		check(func() { e.AddImm8(r, -128) }, "add %s, 0xffffffffffffff80", r)
		check(func() { e.AndImm8(r, 63) }, "and %s, 0x3f", r)
		check(func() { e.Shl(r, 32) }, "shl %s, 0x20", r)
		check(func() { e.Dec(r) }, "dec %s", r)
		check(func() { e.JmpReg(r) }, "jmp %s", r)
		for m := range Reg(16) {
			check(func() { e.Mov(r, m) }, "mov %s, %s", r, m)
			check(func() { e.Add(r, m) }, "add %s, %s", r, m)
			check(func() { e.Sub(r, m) }, "sub %s, %s", r, m)
			check(func() { e.Or(r, m) }, "or %s, %s", r, m)
			check(func() { e.Imul(r, m) }, "imul %s, %s", r, m)
			if m&7 != RSP {
				check(func() { e.LoadAt(r, m, 56) }, "mov %s, [%s+0x38]", r, m)
				check(func() { e.LoadAt(r, m, -128) }, "mov %s, [%s-0x80]", r, m)
				check(func() { e.StoreAt(m, 0, r) }, "mov [%s], %s", m, r)
			}
			if r < R8 && m < R8 && m != RSP && r != RBP {
				check(func() { e.LoadIndexed(m, r, m) }, "mov %s, [%s+%s*8]", m, r, m)
				check(func() { e.StoreIndexed(r, m, m) }, "mov [%s+%s*8], %s", r, m, m)
			}
		}
	}
}

func TestLoadVector(t *testing.T) {
	avx, avx512 := Features{AVX: true}, Features{AVX: true, AVX512: true}
	for _, c := range []struct {
		reg, bits int
		Features
		want string
	}{
		{9, 512, Features{}, "movups xmm9, xmmword ptr [rip-0x8]"},
		{9, 128, avx512, "vmovups xmm9, xmmword ptr [rip-0x8]"},
		{7, 256, avx512, "vmovups ymm7, ymmword ptr [rip-0x8]"},
		{7, 512, avx, "vmovups ymm7, ymmword ptr [rip-0x8]"},
		{15, 512, avx512, "vmovups zmm15, zmmword ptr [rip-0xa]"},
		{16, 128, avx512, "vmovups zmm16, zmmword ptr [rip-0xa]"},
		{31, 512, avx512, "vmovups zmm31, zmmword ptr [rip-0xa]"},
	} {
		e := NewEmitter(codeAt)
		e.LoadVector(c.reg, c.bits, c.Features, codeAt)
		require.Equal(t, c.want, c.want, Text(require.Get(Decode(e.Bytes()))(t)))
	}
}

// The lengths are those of the three encodings: mov r32 takes 5 (6 with REX), sign-extended 7, the full one 10.
func TestMovImm(t *testing.T) {
	for v, length := range map[uint64]int{
		0: 5, 0x1234_5600: 5, 1<<31 - 1: 5, 1 << 31: 5, 1<<32 - 1: 5, // 1<<31 does not fit a sign-extended imm32
		1 << 32: 10, codeAt: 10, ^uint64(0): 7, 1<<64 - 1<<31: 7, 1<<64 - 1<<31 - 1: 10, // the lowest sign-extended one, and one below it
	} {
		for r := range Reg(16) {
			e := NewEmitter(codeAt)
			e.MovImm(r, v)
			reg, want := r.String(), length
			if length == 5 {
				reg, want = gprNames[2][r], length+int(r>>3)
			}
			if got := readBack(t, codeAt, e.Bytes())[0]; got != fmt.Sprintf("mov %s, %#x", reg, v) || len(e.Bytes()) != want {
				t.Errorf("MovImm(%s, %#x) reads as %q and takes %d bytes, want %d", r, v, got, len(e.Bytes()), want)
			}
		}
	}
}

func TestNop(t *testing.T) {
	for n := range 65 {
		e := NewEmitter(0)
		e.Nop(n)
		got := readBack(t, 0, e.Bytes())
		if want := (n + 8) / 9; len(got) != want || len(e.Bytes()) != n {
			t.Errorf("Nop(%d) is %d instructions in %d bytes, want %d", n, len(got), len(e.Bytes()), want)
		}
		for _, s := range got {
			if s != "nop" && !strings.HasPrefix(s, "nop ") && s != "xchg ax, ax" { // 66 90
				t.Errorf("Nop(%d) holds %q", n, s)
			}
		}
	}
	for _, n := range []int{1, 2, 16, 32, 64} {
		for start := range uint64(130) {
			e := NewEmitter(codeAt + start)
			e.Align(n)
			if e.PC()%uint64(n) != 0 || len(e.Bytes()) >= n {
				t.Errorf("Align(%d) at offset %d: %d bytes, to %#x", n, start, len(e.Bytes()), e.PC())
			}
		}
	}
}

func TestForward(t *testing.T) {
	for want, emit := range map[string]func(e *Emitter) Forward{
		"je %#x": (*Emitter).ForwardJz, "jne %#x": (*Emitter).ForwardJnz, "js %#x": (*Emitter).ForwardJs, "ja %#x": (*Emitter).ForwardJa,
		"jmp %#x":        (*Emitter).ForwardJmp,
		"lea rax, [%#x]": func(e *Emitter) Forward { return e.ForwardLea(RAX) },
		"lea r15, [%#x]": func(e *Emitter) Forward { return e.ForwardLea(R15) },
	} {
		for _, gap := range []int{0, 1, 1000} {
			e := NewEmitter(codeAt)
			f := emit(e)
			from := e.PC()
			e.Nop(gap)
			e.Bind(f)
			require.Equal(t, want, fmt.Sprintf(want, from+uint64(gap)), readBack(t, codeAt, e.Bytes())[0])
		}
	}
}

// TestMoved: an instruction has its operand where it had that before, whatever stands after the field.
func TestMoved(t *testing.T) {
	for _, code := range []string{"488b0510000000", "c705f0ffffff01000000", "4801c0"} { // mov rax, [rip+16]; mov dword ptr [rip-16], 1; add
		in := require.Get(DecodeHex(code))(t)[0]
		e := NewEmitter(0x7000)
		e.Moved(in.RIPOperand(0x5000), in.RIPDisp, in.Bytes...)
		moved := require.Get(Decode(e.Bytes()))(t)[0]
		require.Equal(t, code, in.RIPOperand(0x5000), moved.RIPOperand(0x7000))
		require.Equal(t, code+", text", in.Mnemonic, moved.Mnemonic)
	}
}
