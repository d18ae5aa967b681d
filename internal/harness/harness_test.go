package harness

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

// line is one instruction as objdump sees it, with the address that a rip-relative operand
// or a branch means, 0 if there is none.
type line struct {
	addr, end uint64
	text      string
	target    uint64
}

// disassemble reads code that stands at base; unlike x86asm, objdump knows all of VEX.
func disassemble(t *testing.T, base uint64, code []byte) []line {
	t.Helper()
	tool := require.Tool(t, require.Binutils, "objdump")
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "-D", "-z", "-w", "-b", "binary", "-m", "i386:x86-64", "-M", "intel",
		"--insn-width=16", fmt.Sprintf("--adjust-vma=%#x", base), file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	scan := bufio.NewScanner(bytes.NewReader(out))
	for scan.Scan() {
		f := strings.SplitN(scan.Text(), "\t", 3)
		if len(f) < 3 {
			continue
		}
		addr, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(f[0]), ":"), 16, 64)
		if err != nil {
			continue
		}
		text, note, _ := strings.Cut(f[2], "#")
		l := line{addr: addr, end: addr + uint64(len(strings.Fields(f[1]))), text: strings.Join(strings.Fields(text), " ")}
		if note = strings.TrimSpace(note); note != "" {
			if l.target, err = strconv.ParseUint(strings.TrimPrefix(note, "0x"), 16, 64); err != nil {
				t.Fatalf("%q: %v", scan.Text(), err)
			}
		} else if op, to, _ := strings.Cut(l.text, " "); op[0] == 'j' && strings.HasPrefix(to, "0x") {
			l.target, _ = strconv.ParseUint(to[2:], 16, 64)
		}
		if strings.Contains(l.text, "(bad)") {
			t.Fatalf("objdump does not know %q", scan.Text())
		}
		lines = append(lines, l)
	}
	if n := len(lines); n == 0 || lines[n-1].end != base+uint64(len(code)) {
		t.Fatalf("the last instruction does not end where the code does: %v", lines[max(0, n-1):])
	}
	return lines
}

func texts(lines []line) []string {
	var s []string
	for _, l := range lines {
		s = append(s, strings.TrimPrefix(l.text, "rex ")) // a prefix without effect
	}
	return s
}

func isNop(l line) bool {
	return strings.HasPrefix(l.text, "nop") || strings.HasPrefix(l.text, "data16 nop") ||
		strings.HasPrefix(l.text, "cs nop") || l.text == "xchg ax,ax"
}

// allResets is every combination of what a prologue can restore.
func allResets() []Reset {
	var all []Reset
	for bits := range 128 {
		on := func(i int) bool { return bits>>i&1 != 0 }
		all = append(all, Reset{Memory: on(0), Vector: on(1), High: on(2), X87: on(3), Filled: bits >> 3 & 1 * 2, MXCSR: on(4), Flags: on(5), MMX: on(6)})
	}
	return all
}

var allFeatures = []asm.Features{{}, {AVX: true}, {AVX: true, AVX512: true}}

// checkFused finds each dec+jnz pair and demands that it neither crosses a 32-byte boundary
// nor ends at one, which is what Intel's erratum SKX102 is about.
func checkFused(t *testing.T, lines []line) (pairs int) {
	t.Helper()
	for i := 1; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i-1].text, "dec r") || !strings.HasPrefix(lines[i].text, "jne") {
			continue
		}
		pairs++
		if first, last := lines[i-1].addr, lines[i].end; first/32 != last/32 {
			t.Errorf("%q and %q at %#x to %#x touch a 32-byte boundary", lines[i-1].text, lines[i].text, first, last)
		}
	}
	return pairs
}

// One disassembly of many prologues: each stands at its own offset within a line, and they
// lie one after the other.
func TestPrologueWherever(t *testing.T) {
	init := initial.Paper()
	for _, features := range allFeatures {
		var code []byte
		loops := 0
		for i, reset := range allResets() {
			for k := range 8 {
				pad := (i + 9*k) % 64
				e := asm.NewEmitter(layout.Code + uint64(len(code)))
				e.Nop(pad)
				Prologue(e, init, reset, features)
				if e.PC()%64 != 0 {
					t.Fatalf("%+v after %d bytes ends at %#x, not at a multiple of 64", reset, pad, e.PC())
				}
				code = append(code, e.Bytes()...)
				loops++
				if reset.Memory {
					loops++
				}
			}
		}
		if got := checkFused(t, disassemble(t, layout.Code, code)); got != loops {
			t.Errorf("%d loops found, want %d: the check would miss some", got, loops)
		}
	}
}

// Instructions that send the copies to the decoders, or cost more than what is measured.
func TestPrologueHoldsNothingThatLeavesTheOpCache(t *testing.T) {
	for _, features := range allFeatures {
		e := asm.NewEmitter(layout.Code)
		Prologue(e, initial.Paper(), Reset{Memory: true, Vector: true, High: true, X87: true, MXCSR: true, Flags: true}, features)
		for _, l := range disassemble(t, layout.Code, e.Bytes()) {
			for _, bad := range []string{"mfence", "sfence", "xrstor", "fxrstor", "rep", "featuresid", "serialize"} {
				if strings.HasPrefix(l.text, bad) {
					t.Errorf("%+v: %q", features, l.text)
				}
			}
		}
	}
}

// The tail: flags cleared first, then each register its value by mov, which keeps flags.
func TestPrologueTail(t *testing.T) {
	init := initial.Paper()
	for r := range init.GPR { // distinct, of all three encodings
		init.GPR[r] = []uint64{0x1000, 0x7fff_0000_0000, ^uint64(0)}[r%3] - uint64(r)
	}
	e := asm.NewEmitter(layout.Code + 17)
	Prologue(e, init, Reset{}, asm.Features{})
	lines := disassemble(t, layout.Code+17, e.Bytes())
	got := texts(lines[len(lines)-18:])
	names32 := []string{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"}
	want := []string{"xor eax,eax", "add eax,0x1"}
	for r, v := range init.GPR {
		switch {
		case v>>32 == 0:
			want = append(want, fmt.Sprintf("mov %s,%#x", names32[r], v))
		case r%3 == 1:
			want = append(want, fmt.Sprintf("movabs %s,%#x", asm.Reg(r), v))
		default:
			want = append(want, fmt.Sprintf("mov %s,%#x", asm.Reg(r), v))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("tail:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Before it: the number of iterations, lfence, the loop, and nothing but padding.
	var before []string
	for _, l := range lines[:len(lines)-18] {
		if !isNop(l) {
			before = append(before, l.text)
		}
	}
	if len(before) != 5 || !strings.HasPrefix(before[0], "mov rcx,QWORD PTR [rip") || before[1] != "add rcx,0x4" || before[2] != "lfence" || before[3] != "dec rcx" || !strings.HasPrefix(before[4], "jne ") {
		t.Errorf("before the tail: %q", before)
	}
}

// Each part of Reset adds its own instructions and nothing else.
func TestPrologueParts(t *testing.T) {
	plain := func(reset Reset, features asm.Features) []line {
		e := asm.NewEmitter(layout.Code)
		Prologue(e, initial.Paper(), reset, features)
		var lines []line
		for _, l := range disassemble(t, layout.Code, e.Bytes()) {
			if isNop(l) {
				continue
			}
			if l.text == "lfence" || l.target == layout.SlotDispatch {
				return lines
			}
			lines = append(lines, l)
		}
		t.Fatal("no lfence")
		return nil
	}
	expect := func(what string, lines []line, want ...string) {
		t.Helper()
		if got := texts(lines); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	avx, all := asm.Features{AVX: true}, asm.Features{AVX: true, AVX512: true}
	expect("nothing", plain(Reset{}, all))
	expect("x87", plain(Reset{X87: true}, all), "fninit")
	expect("x87 with two registers in use", plain(Reset{X87: true, Filled: 2}, all), "fninit", "fld1", "fld1")
	mmx := []string{"fnclex"}
	for r := range 8 {
		mmx = append(mmx, fmt.Sprintf("pxor mm%d,mm%d", r, r))
	}
	expect("mmx", plain(Reset{X87: true, MMX: true}, all), append(mmx, "fninit")...)
	expect("vector", plain(Reset{Vector: true}, avx), "vzeroall")
	expect("high without AVX-512", plain(Reset{High: true}, avx))

	var pxor, high []string
	for r := range 16 {
		pxor = append(pxor, fmt.Sprintf("pxor xmm%d,xmm%d", r, r))
		high = append(high, fmt.Sprintf("vpxord zmm%d,zmm%d,zmm%d", r+16, r+16, r+16))
	}
	words := slices.Concat(high, []string{"mov rax,0xffffffffffffffff"})
	quads := slices.Clone(words)
	for k := range 8 {
		words = append(words, fmt.Sprintf("kmovw k%d,eax", k))
		quads = append(quads, fmt.Sprintf("kmovq k%d,rax", k))
	}
	expect("vector without AVX", plain(Reset{Vector: true}, asm.Features{}), pxor...)
	expect("high", plain(Reset{High: true}, all), words...)
	all.AVX512BW = true
	expect("high with 64 bits of mask", plain(Reset{High: true}, all), quads...)

	mxcsr := plain(Reset{MXCSR: true}, all)
	if len(mxcsr) != 1 || !strings.HasPrefix(mxcsr[0].text, "ldmxcsr DWORD PTR [rip") || mxcsr[0].target != layout.SlotMXCSR {
		t.Errorf("mxcsr: %+v", mxcsr)
	}
	expect("flags", plain(Reset{Flags: true}, all), fmt.Sprintf("movabs rsp,%#x", uint64(layout.SlotFlags)), "popf")

	for _, values := range []bool{false, true} {
		checkRestore(t, plain(Reset{Memory: true, Values: values}, all), values)
	}
}

// checkRestore: a prologue enters a row of steps, one for each word, where as many are left as there are words beyond a
// multiple of the row, and goes through the whole row for each multiple.
func checkRestore(t *testing.T, memory []line, values bool) {
	t.Helper()
	step, words := []string{"mov rdi,QWORD PTR [rsi+%#x]", "mov QWORD PTR [rdi+0x0],rax"}, 1
	want := []string{"mov eax,0x12345600"}
	if values {
		step, words = []string{step[0], "mov rax,QWORD PTR [rsi+%#x]", step[1]}, 2
		want = nil
	}
	fill := len(want)
	want = append(want, "mov rcx,QWORD PTR [rip", "lea rsi,[rip", "movzx edx,cl", "sub rdx,0x100")
	for range words {
		want = append(want, "lea rsi,[rsi+rdx*8]")
	}
	want = append(want, "imul edx,edx,", "movsxd rdx,edx", "shr ecx,0x8", "add rcx,0x1", "lea rdi,[rip", "sub rdi,rdx", "jmp rdi")
	first := len(want)
	for k := range restoredAtOnce {
		for i, text := range step {
			if strings.Contains(text, "%") {
				text = fmt.Sprintf(text, 8*(words*k+i))
			}
			want = append(want, text)
		}
	}
	last := len(want)
	want = append(want, fmt.Sprintf("add rsi,%#x", 8*words*restoredAtOnce), "dec rcx", "jne ", "lock not QWORD PTR [rip") // words or not, the store buffer is drained
	if len(memory) != len(want) {
		t.Fatalf("%d steps, want %d", len(memory), len(want))
	}
	for i, text := range want {
		if !strings.HasPrefix(memory[i].text, text) {
			t.Errorf("step %d: %q, want %q", i, memory[i].text, text)
		}
	}
	size := (memory[last].addr - memory[first].addr) / restoredAtOnce
	if got, want := memory[fill+4+words].text, fmt.Sprintf("imul edx,edx,%#x", size); got != want {
		t.Errorf("%q, and a step has %d bytes", got, size)
	}
	for i, target := range map[int]uint64{fill: layout.SlotRestore, fill + 1: layout.Restore, first - 3: memory[first].addr, last + 2: memory[first].addr, last + 3: layout.SlotScratch} {
		if memory[i].target != target {
			t.Errorf("step %d: %q means %#x, want %#x", i, memory[i].text, memory[i].target, target)
		}
	}
}

func TestEpilogue(t *testing.T) {
	for _, entry := range []uint64{layout.Code, layout.Code + 0x8_0000} {
		e := asm.NewEmitter(layout.Code + 0x4_0007)
		Epilogue(e, entry, TSC)
		lines := disassemble(t, layout.Code+0x4_0007, e.Bytes())
		want := []struct {
			prefix string
			target uint64
		}{
			{"lfence", 0},
			{"rdtsc", 0},
			{"shl rdx,0x20", 0},
			{"or rax,rdx", 0},
			{"mov rcx,QWORD PTR [rip", layout.SlotCount},
			{"lea rdx,[rip", layout.Times},
			{"mov QWORD PTR [rdx+rcx*8],rax", 0},
			{"add rcx,", 0}, // -1
			{"mov QWORD PTR [rip", layout.SlotCount},
			{"jne ", entry},
			{"jmp QWORD PTR [rip", layout.SlotReturn},
		}
		if len(lines) != len(want) {
			t.Fatalf("%q", texts(lines))
		}
		for i, w := range want {
			if !strings.HasPrefix(lines[i].text, w.prefix) || lines[i].target != w.target {
				t.Errorf("step %d: %q means %#x, want %q and %#x", i, lines[i].text, lines[i].target, w.prefix, w.target)
			}
		}
	}
}

// The sampler and the wait as wholes: every byte belongs to an instruction, every operand to a slot
// or table of the own region, every jump to the start of an instruction of theirs or out by the
// one way there is.
func TestSampler(t *testing.T) {
	const done = layout.Stub + 0x80
	for start := uint64(0); start < 128; start += 41 {
		for wide := range 3 {
			probe := Probe{Iterations: 64, Nops: wide == 1}
			base := layout.Code + start
			e := asm.NewEmitter(base)
			entry := Sampler(e, TSC, probe, 128<<wide, done)
			idle := WaitIdle(e, TSC, probe, 128<<wide, 8, done)
			if entry%64 != 0 || idle%64 != 0 {
				t.Errorf("entries %#x and %#x are no multiples of 64", entry, idle)
			}
			lines := disassemble(t, base, e.Bytes())
			starts := map[uint64]bool{done: true}
			for _, l := range lines {
				starts[l.addr] = true
			}
			adds, exits := 0, 0
			for _, l := range lines {
				op, _, _ := strings.Cut(l.text, " ")
				switch {
				case op[0] == 'j' && !strings.Contains(l.text, "rip"):
					if !starts[l.target] {
						t.Errorf("%q leads between instructions", l.text)
					}
					if l.target == done {
						exits++
					}
				case op == "lea" && l.target >= base && l.target < e.PC():
					if !starts[l.target] || l.target%64 != 0 {
						t.Errorf("%q leads to %#x, where no phase goes on", l.text, l.target)
					}
				case op == "lea":
					if l.target != layout.Phases && l.target != layout.Times && l.target != layout.Times+8 {
						t.Errorf("%q means %#x, neither the table nor Times", l.text, l.target)
					}
				case strings.Contains(l.text, "rip"):
					if l.target < layout.Control || l.target >= layout.Phases || l.target%8 != 0 {
						t.Errorf("%q means %#x, which is no slot", l.text, l.target)
					}
				case op == "add" && !strings.Contains(l.text, "0x"):
					adds++
				}
			}
			if adds != 2*ContentionAdds+1 {
				t.Errorf("%d adds, want twice %d in the contention probes, and one to an address", adds, ContentionAdds)
			}
			if exits != 2+2 {
				t.Errorf("%d ways out, want 2 of each", exits)
			}
		}
	}
}

// The contention probe's own loops must run from the op cache on every core.
func TestProbeLoopsAreFused(t *testing.T) {
	for start := range uint64(64) {
		e := asm.NewEmitter(layout.Code + start)
		contention(e, TSC, Probe{Iterations: 64, Nops: true})
		burst(e, TSC)
		if start%8 != 5 { // an objdump run each
			continue
		}
		if n := checkFused(t, disassemble(t, layout.Code+start, e.Bytes())); n != 3 {
			t.Errorf("%d loops, want 3", n)
		}
	}
}
