package asm

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// What the emitter writes is read back by a decoder that shares no line with ours.

// readBack renders code that stands at base, one instruction an entry. Operands relative to rip and branch targets
// come out as the address that they mean.
func readBack(t *testing.T, base uint64, code []byte) []string {
	t.Helper()
	var out []string
	for len(code) > 0 {
		in, err := x86asm.Decode(code, 64)
		if err != nil || in.Op == 0 {
			t.Fatalf("at %#x: % x: %v %v", base, code[:min(len(code), 15)], in, err)
		}
		next := base + uint64(in.Len)
		var args []string
		for _, a := range in.Args {
			switch a := a.(type) {
			case nil:
			case x86asm.Mem:
				switch {
				case a.Base == x86asm.RIP:
					args = append(args, fmt.Sprintf("[%#x]", next+uint64(int64(int32(a.Disp)))))
				case a.Segment != 0:
					args = append(args, a.String())
				case a.Index != 0:
					args = append(args, fmt.Sprintf("[%v+%d*%v%+d]", a.Base, a.Scale, a.Index, a.Disp))
				default:
					args = append(args, fmt.Sprintf("[%v%+d]", a.Base, a.Disp))
				}
			case x86asm.Rel:
				args = append(args, fmt.Sprintf("%#x", next+uint64(int64(a))))
			case x86asm.Imm:
				args = append(args, fmt.Sprintf("%#x", uint64(a)))
			default:
				args = append(args, a.String())
			}
		}
		out = append(out, strings.ToLower(strings.TrimSpace(in.Op.String()+" "+strings.Join(args, ", "))))
		base, code = next, code[in.Len:]
	}
	return out
}

var regNames = [16]string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}

// Code stands between what it refers to.
const (
	stubAt = 0x6000_0000_0000
	slotAt = 0x6000_0079_f008
	codeAt = 0x6000_0080_0000
	endAt  = 0x6000_00e0_0000
)

func TestEmitterInstructions(t *testing.T) {
	const base = codeAt + 0x123
	type c struct {
		name string
		emit func(e *Emitter)
		want string
	}
	cases := []c{
		{"Jmp ahead", func(e *Emitter) { e.Jmp(base + 0x1000) }, fmt.Sprintf("jmp %#x", base+0x1000)},
		{"Jmp back", func(e *Emitter) { e.Jmp(stubAt) }, fmt.Sprintf("jmp %#x", uint64(stubAt))},
		{"JmpMem", func(e *Emitter) { e.JmpMem(slotAt) }, fmt.Sprintf("jmp [%#x]", uint64(slotAt))},
		{"Jnz", func(e *Emitter) { e.Jnz(codeAt) }, fmt.Sprintf("jne %#x", uint64(codeAt))},
		{"JnzShort to itself", func(e *Emitter) { e.JnzShort(base) }, fmt.Sprintf("jne %#x", base)},
		{"JnzShort furthest", func(e *Emitter) { e.JnzShort(base - 126) }, fmt.Sprintf("jne %#x", base-126)},
		{"DecMem", func(e *Emitter) { e.DecMem(slotAt) }, fmt.Sprintf("dec [%#x]", uint64(slotAt))},
		{"LockNot", func(e *Emitter) { e.LockNot(slotAt) }, fmt.Sprintf("not [%#x]", uint64(slotAt))},
		{"Ldmxcsr", func(e *Emitter) { e.Ldmxcsr(slotAt) }, fmt.Sprintf("ldmxcsr [%#x]", uint64(slotAt))},
		{"Lfence", (*Emitter).Lfence, "lfence"},
		{"Rdtsc", (*Emitter).Rdtsc, "rdtsc"},
		{"Syscall", (*Emitter).Syscall, "syscall"},
		{"Int3", (*Emitter).Int3, "int 0x3"},
		{"Popf", (*Emitter).Popf, "popfq"},
		{"Frstor", func(e *Emitter) { e.Frstor(slotAt) }, fmt.Sprintf("frstor [%#x]", uint64(slotAt))},
		{"Fninit", (*Emitter).Fninit, "fninit"},
	}
	const mem = stubAt + 0x38 // before the code: a negative distance
	const far = endAt - 8     // after it
	for r := range Reg(16) {
		n := regNames[r]
		cases = append(cases,
			c{"Load", func(e *Emitter) { e.Load(r, mem) }, fmt.Sprintf("mov %s, [%#x]", n, uint64(mem))},
			c{"Load ahead", func(e *Emitter) { e.Load(r, far) }, fmt.Sprintf("mov %s, [%#x]", n, uint64(far))},
			c{"Store", func(e *Emitter) { e.Store(mem, r) }, fmt.Sprintf("mov [%#x], %s", uint64(mem), n)},
			c{"Lea", func(e *Emitter) { e.Lea(r, mem) }, fmt.Sprintf("lea %s, [%#x]", n, uint64(mem))},
			c{"SubMem", func(e *Emitter) { e.SubMem(r, mem) }, fmt.Sprintf("sub %s, [%#x]", n, uint64(mem))},
			c{"CmpMem", func(e *Emitter) { e.CmpMem(r, mem) }, fmt.Sprintf("cmp %s, [%#x]", n, uint64(mem))},
			c{"AddImm8", func(e *Emitter) { e.AddImm8(r, 127) }, fmt.Sprintf("add %s, 0x7f", n)},
			c{"AddImm8 negative", func(e *Emitter) { e.AddImm8(r, -128) }, fmt.Sprintf("add %s, 0xffffffffffffff80", n)},
			c{"AndImm8", func(e *Emitter) { e.AndImm8(r, 63) }, fmt.Sprintf("and %s, 0x3f", n)},
			c{"Shl", func(e *Emitter) { e.Shl(r, 32) }, fmt.Sprintf("shl %s, 0x20", n)},
			c{"Dec", func(e *Emitter) { e.Dec(r) }, "dec " + n},
			c{"JmpReg", func(e *Emitter) { e.JmpReg(r) }, "jmp " + n},
		)
		for _, m := range []Reg{RAX, RSP, RBP, R8, R12, R13, R15, r} {
			k := regNames[m]
			cases = append(cases,
				c{"Add", func(e *Emitter) { e.Add(r, m) }, fmt.Sprintf("add %s, %s", n, k)},
				c{"Sub", func(e *Emitter) { e.Sub(r, m) }, fmt.Sprintf("sub %s, %s", n, k)},
				c{"Or", func(e *Emitter) { e.Or(r, m) }, fmt.Sprintf("or %s, %s", n, k)},
				c{"Imul", func(e *Emitter) { e.Imul(r, m) }, fmt.Sprintf("imul %s, %s", n, k)},
			)
			if m == RSP || m == R12 {
				continue
			}
			cases = append(cases,
				c{"LoadAt", func(e *Emitter) { e.LoadAt(r, m, 56) }, fmt.Sprintf("mov %s, [%s+56]", n, k)},
				c{"LoadAt negative", func(e *Emitter) { e.LoadAt(r, m, -128) }, fmt.Sprintf("mov %s, [%s-128]", n, k)},
				c{"StoreAt", func(e *Emitter) { e.StoreAt(m, 0, r) }, fmt.Sprintf("mov [%s+0], %s", k, n)},
			)
		}
	}
	for r := range Reg(8) {
		for _, b := range []Reg{RAX, RDX, RSP, RDI} {
			for _, i := range []Reg{RAX, RCX, RBP, RDI} {
				n, at := regNames[r], fmt.Sprintf("[%s+8*%s+0]", regNames[b], regNames[i])
				cases = append(cases,
					c{"LoadIndexed", func(e *Emitter) { e.LoadIndexed(r, b, i) }, fmt.Sprintf("mov %s, %s", n, at)},
					c{"StoreIndexed", func(e *Emitter) { e.StoreIndexed(b, i, r) }, fmt.Sprintf("mov %s, %s", at, n)},
				)
			}
		}
	}
	for _, c := range cases {
		e := NewEmitter(base)
		c.emit(e)
		got := readBack(t, base, e.Bytes())
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: % x reads as %q, want %q", c.name, e.Bytes(), got, c.want)
		}
		if want := base + uint64(len(e.Bytes())); e.PC() != want {
			t.Errorf("%s: PC is %#x, want %#x", c.name, e.PC(), want)
		}
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
			in, err := x86asm.Decode(e.Bytes(), 64)
			if err != nil || in.Op != x86asm.MOV || in.Len != len(e.Bytes()) {
				t.Fatalf("MovImm(%s, %#x): % x: %v %v", regNames[r], v, e.Bytes(), in, err)
			}
			imm, reg, want := uint64(in.Args[1].(x86asm.Imm)), x86asm.RAX+x86asm.Reg(r), length
			if length == 5 {
				imm, reg = uint64(uint32(imm)), x86asm.EAX+x86asm.Reg(r)
				if r >= R8 {
					want = 6
				}
			}
			if in.Args[0] != reg || imm != v || in.Len != want {
				t.Errorf("MovImm(%s, %#x) reads as %v and takes %d bytes, want %d", regNames[r], v, in, in.Len, want)
			}
		}
	}
}

func TestNopLengths(t *testing.T) {
	for n := range 65 {
		e := NewEmitter(0)
		e.Nop(n)
		if len(e.Bytes()) != n {
			t.Errorf("Nop(%d) is %d bytes", n, len(e.Bytes()))
		}
		got := readBack(t, 0, e.Bytes())
		if want := (n + 8) / 9; len(got) != want {
			t.Errorf("Nop(%d) is %d instructions, want %d", n, len(got), want)
		}
		for _, s := range got {
			if s != "nop" && !strings.HasPrefix(s, "nop ") && s != "xchg ax, ax" { // 66 90
				t.Errorf("Nop(%d) holds %q", n, s)
			}
		}
	}
}

func TestEmitterAlign(t *testing.T) {
	for _, n := range []int{1, 2, 16, 32, 64} {
		for start := range uint64(130) {
			e := NewEmitter(codeAt + start)
			e.Align(n)
			if e.PC()%uint64(n) != 0 || len(e.Bytes()) >= n {
				t.Errorf("Align(%d) at offset %d: %d bytes, to %#x", n, start, len(e.Bytes()), e.PC())
			}
			readBack(t, codeAt+start, e.Bytes())
		}
	}
}

func TestForward(t *testing.T) {
	for _, c := range []struct {
		op   string
		emit func(e *Emitter) Forward
	}{
		{"je", (*Emitter).ForwardJz},
		{"js", (*Emitter).ForwardJs},
		{"jnbe", (*Emitter).ForwardJa},
		{"lea rax,", func(e *Emitter) Forward { return e.ForwardLea(RAX) }},
		{"lea r15,", func(e *Emitter) Forward { return e.ForwardLea(R15) }},
	} {
		for _, gap := range []int{0, 1, 1000} {
			e := NewEmitter(codeAt)
			e.Nop(5)
			start := len(e.Bytes())
			f := c.emit(e)
			from := e.PC()
			e.Nop(gap)
			e.Bind(f)
			want := fmt.Sprintf("%#x", from+uint64(gap))
			if strings.HasPrefix(c.op, "lea") {
				want = "[" + want + "]"
			}
			got := readBack(t, codeAt+uint64(start), e.Bytes()[start:from-codeAt])
			if len(got) != 1 || strings.Replace(got[0], "ja ", "jnbe ", 1) != c.op+" "+want {
				t.Errorf("%s over %d bytes: %q, want target %s", c.op, gap, got, want)
			}
		}
	}
}
