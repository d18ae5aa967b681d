package capture

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

// tiny writes a program of that code, and returns a function that makes a block of part of it.
func tiny(t *testing.T, code []byte) (launch.Command, func(from, to int) Block) {
	t.Helper()
	path := tinyelf.Write(t, code)
	c := require.Get(launch.NewCommand([]string{path}))(t)
	c.CleanEnv = true
	return c, func(from, to int) Block {
		return Block{Code: code[from:to], File: path, Offset: tinyelf.Base + uint64(from)}
	}
}

func run(t *testing.T, c launch.Command, o Options, blocks ...Block) ([]Visit, Report) {
	t.Helper()
	if o.Samples == 0 {
		o.Samples = 4
	}
	o.Timeout = time.Minute
	var visits []Visit
	r, err := Run(context.Background(), c, blocks, o, func(v Visit) error { visits = append(visits, v); return nil })
	require.Host(t, err)
	require.NoError(t, err)
	return visits, r
}

// sameStates fails a test in which two captures of one program differ.
func sameStates(t *testing.T, one, other []Visit) {
	t.Helper()
	if !cmp.Equal(one, other, cmp.Comparer(func(a, b initial.Page) bool { return a == b })) {
		t.Error("another run gives other states")
	}
}

// TestLoop: a loop counts in memory and in a register; each visit starts from what the one before left.
func TestLoop(t *testing.T) {
	code := tinyelf.Asm(
		"\x31\xc9",                     // xor ecx,ecx
		"\x48\x83\xec\x40",             // sub rsp,64
		"\x31\xc0", "\x48\x89\x04\x24", // xor eax,eax; mov [rsp],rax
		"\xff\xc1",             // loop: inc ecx
		"\x48\x83\x04\x24\x03", // add qword [rsp],3
		"\x48\x8b\x14\x24",     // mov rdx,[rsp]
		"\x81\xf9\xe8\x03\x00\x00",
		"\x75\xed", // cmp ecx,1000; jne loop
		tinyelf.Exit(0))
	c, block := tiny(t, code)
	visits, r := run(t, c, Options{}, block(12, 29))
	if len(visits) != 4 || r.Blocks[0].Visits != 1000 || r.Blocks[0].Kept != 4 || r.End != "" {
		t.Fatalf("%d visits: %+v", len(visits), r)
	}
	for _, v := range visits {
		b, a := v.Before, v.After
		if b.Address != tinyelf.Base+12 || a.Address != tinyelf.Base+29 || b.GPR[1] != v.Number-1 || a.GPR[1] != v.Number || a.GPR[2] != 3*v.Number {
			t.Errorf("visit %d: %x %x", v.Number, b.GPR, a.GPR)
		}
		if len(b.Pages) != 1 || len(a.Pages) != 1 || !b.Pages[0].Writable || b.Pages[0].Address != b.GPR[4]&^4095 {
			t.Fatalf("visit %d has %d pages, and %d are changed", v.Number, len(b.Pages), len(a.Pages))
		}
		at := b.GPR[4] % 4096
		want := b.Pages[0]
		for i := range 8 {
			want.Data[at+uint64(i)] = byte(3 * v.Number >> (8 * i))
		}
		if want != a.Pages[0] {
			t.Errorf("visit %d: the page is not as the block leaves it", v.Number)
		}
	}
	loop, _ := run(t, c, Options{}, block(12, 31))
	for i, v := range loop {
		if to := v.After.Address; (to == tinyelf.Base+12) != (v.Number < 1000) || v.Number == 1000 && to != tinyelf.Base+31 {
			t.Errorf("visit %d with the branch leads to %#x", v.Number, to)
		}
		if pages := v.Before.Pages; len(pages) < 2 || !slices.Contains(pages, visits[i].Before.Pages[0]) || v.Before.GPR != visits[i].Before.GPR {
			t.Errorf("visit %d with the branch: %d pages", v.Number, len(pages))
		}
	}
	again, _ := run(t, c, Options{}, block(12, 29))
	sameStates(t, visits, again)
	first, r := run(t, c, Options{First: 10}, block(12, 29))
	if r.Blocks[0].Visits != 10 || len(first) != 4 || first[3].Number > 10 {
		t.Errorf("of the first 10: %+v", r)
	}
}

// TestLongLoop: a loop that is too long to be stepped is taken some iterations before its end, and the program runs as ever.
func TestLongLoop(t *testing.T) {
	const iterations = 1_000_000
	share := tinyelf.Asm("\xb8\x09\x00\x00\x00", "\x31\xff", "\xbe\x00\x10\x00\x00", "\xba\x03\x00\x00\x00", // mmap(0, 4096, PROT_READ|PROT_WRITE,
		"\x41\xba\x21\x00\x00\x00", "\x49\x83\xc8\xff", "\x45\x31\xc9", "\x0f\x05") // MAP_SHARED|MAP_ANONYMOUS, -1, 0)
	for name, before := range map[string][]byte{"": nil, "with memory that it shares": share} {
		code := tinyelf.Asm(string(before), "\xb9\x41\x42\x0f\x00", "\x31\xd2", "\x31\xdb", // mov ecx, iterations+1; xor edx, edx; xor ebx, ebx
			"\xeb\x0e",                     // jmp header
			"\x48\x03\x15\xee\xff\xff\xff", // body: add rdx, [rip-18], the first mov
			"\xf6\xc2\x02",                 // test dl, 2
			"\x74\x02",                     // jz header
			"\xff\xc3",                     // inc ebx
			"\xe2\xf0",                     // header: loop body
			tinyelf.Exit(0))
		at := len(before)
		c, part := tiny(t, code)
		loop := part(at+11, at+27)
		loop.Entry = new(14)
		visits, r := run(t, c, Options{}, loop)
		if name != "" {
			if len(visits) > 0 || r.Blocks[0].Lost["the loop goes on for more than 50000 instructions"] != 1 || r.End != "" {
				t.Errorf("%s: %+v", name, r)
			}
			continue
		}
		if len(visits) != 1 || r.End != "" {
			t.Fatalf("%d visits: %+v", len(visits), r)
		}
		v := visits[0]
		constant := binary.LittleEndian.Uint64(code[at:])
		if v.Skipped < iterations-mostSteps || v.Before.GPR[asm.RCX] != iterations+1-v.Skipped || v.Before.GPR[asm.RDX] != v.Skipped*constant ||
			v.After.GPR[asm.RCX] != 0 || v.After.GPR[asm.RDX] != iterations*constant&math.MaxUint64 || v.After.GPR[asm.RBX] != iterations/2 {
			t.Errorf("%d iterations are skipped: %x to %x", v.Skipped, v.Before.GPR, v.After.GPR)
		}
	}
}

// TestShortLoop: visits that could not be measured are not kept.
func TestShortLoop(t *testing.T) {
	code := tinyelf.Asm("\xba\x34\x00\x00\x00", "\x89\xd1", "\xff\xc1", "\xff\xc9", "\x75\xfc", // mov edx, 52; outer: mov ecx, edx; inc ecx; loop: dec ecx; jnz loop
		"\xff\xca", "\x75\xf4", tinyelf.Exit(0)) // dec edx; jnz outer
	c, part := tiny(t, code)
	loop := part(9, 13)
	loop.Entry = new(int)
	visits, r := run(t, c, Options{Samples: 60}, loop) // of 2 to 53 iterations, two instructions each
	if o := r.Blocks[0]; o.Visits != 52 || len(visits) != 12 || o.Lost[tooShort] != 40 {
		t.Errorf("%d visits: %+v", len(visits), o)
	}
}

// TestEndlessLoop: the time for which the end of a loop is looked for is bounded, and the program's own signals end it.
func TestEndlessLoop(t *testing.T) {
	require.Slow(t)
	defer func(usual time.Duration) { mostTime = usual }(mostTime)
	mostTime = 100 * time.Millisecond
	code := tinyelf.Asm("\xb8\x25\x00\x00\x00", "\xbf\x01\x00\x00\x00", "\x0f\x05", // alarm(1)
		"\xff\xc0", "\xeb\xfc") // inc eax; jmp
	c, part := tiny(t, code)
	loop := part(12, 16)
	loop.Entry = new(int)
	_, r := run(t, c, Options{}, loop)
	if r.Blocks[0].Lost[tooLong] != 1 || !strings.Contains(r.End, "alarm") {
		t.Errorf("%+v", r)
	}
}

// first returns the first block of a program's function.
func first(t *testing.T, path, function string) Block {
	t.Helper()
	file := require.Get(elf.Open(path))(t)
	defer file.Close()
	for _, s := range require.Get(file.Symbols())(t) {
		if s.Name != function {
			continue
		}
		text := file.Sections[s.Section]
		code := make([]byte, s.Size)
		require.Get(text.ReadAt(code, int64(s.Value-text.Addr)))(t)
		for at := 0; at < len(code); {
			step := require.Get(asm.StepOver(code[at:]))(t)
			if step.Flow != asm.FlowNext {
				return Block{Code: code[:at], File: path, Function: function, Offset: s.Value}
			}
			at += step.Length
		}
	}
	t.Fatalf("%s has no function %s that ends", path, function)
	return Block{}
}

// TestHostile: capture changes neither a program's output nor its end, whatever it does, and earlier captures are kept.
func TestHostile(t *testing.T) {
	require.Slow(t)
	path := require.Compiled(t, "testdata/hostile.c", "-O1", "-pthread")
	block := first(t, path, "work")
	for _, test := range []struct {
		how    string
		visits uint64 // expected count, of 100 calls each; 0: any
		end    string
		lost   string
	}{
		{"", 100, "", ""},
		{"code", 100, "", ""},
		{"unmap", 201, "it was killed by signal 11 (segmentation fault)", "it touches an address where nothing is mapped"},
		{"protect", 201, "it was killed by signal 11 (segmentation fault)", "it touches a page that cannot be read"},
		{"signal", 0, "", ""},
		{"die", 100, "it was killed by signal 6 (aborted)", ""},
		{"fork", 200, "", ""},
		{"exec", 100, "it became another program by exec", ""},
		{"thread", 300, "", ""},
	} {
		t.Run(test.how, func(t *testing.T) {
			c := require.Get(launch.NewCommand([]string{path, test.how}))(t)
			want, _ := exec.Command(path, test.how).Output()
			out := require.Get(os.Create(filepath.Join(t.TempDir(), "out")))(t)
			defer out.Close()
			visits, r := run(t, c, Options{Samples: 1000, Control: launch.Control{Stdout: out}}, block)
			got, err := os.ReadFile(out.Name())
			if err != nil || test.how != "exec" && string(got) != string(want) {
				t.Errorf("it writes %q, and without capture %q (%v)", got, want, err)
			}
			o := r.Blocks[0]
			if r.End != test.end || test.visits > 0 && o.Visits != test.visits || len(visits) < 97 || len(visits) != o.Kept {
				t.Errorf("%d visits: %+v", len(visits), r)
			}
			if test.lost != "" && o.Lost[test.lost] != 1 {
				t.Errorf("lost: %v", o.Lost)
			}
			if (r.Threads > 0) != (test.how == "thread") || (r.Children > 0) != (test.how == "fork") {
				t.Errorf("%d threads, %d children", r.Threads, r.Children)
			}
		})
	}
}

// TestRandom: what a program derives from random bytes is the same in every capture, but still random to it.
func TestRandom(t *testing.T) {
	path := require.Compiled(t, "testdata/random.c", "-O1")
	c := require.Get(launch.NewCommand([]string{path}))(t)
	block := first(t, path, "work")
	visits, r := run(t, c, Options{Samples: 20}, block)
	again, _ := run(t, c, Options{Samples: 20}, block)
	if len(visits) != 12 || r.End != "" {
		t.Fatalf("%d visits: %+v", len(visits), r)
	}
	for i := range visits { // not their pages: one may hold a time stamp of the loader's, below the stack
		require.Equal(t, fmt.Sprintf("registers after visit %d", i+1), visits[i].After.GPR, again[i].After.GPR)
	}
	others, _ := run(t, c, Options{Samples: 20, Random: true}, block)
	if len(others) != 12 || others[0].After.GPR[0] == visits[0].After.GPR[0] {
		t.Errorf("left alone, the program gets the same random bytes: %d visits", len(others))
	}
	values := map[uint64]bool{}
	for _, v := range visits {
		values[v.After.GPR[0]] = true
	}
	if len(values) < 12 {
		t.Errorf("of 12 random numbers %d differ", len(values))
	}
}

// TestStrings: all iterations of string instructions are followed, and pushed flags do not reveal single steps.
func TestStrings(t *testing.T) {
	code := tinyelf.Asm(
		"\x48\x81\xec\x00\x30\x00\x00", // sub rsp,0x3000
		"\x48\x89\xe7",                 // mov rdi,rsp
		"\xb9\x00\x04\x00\x00",         // mov ecx,1024
		"\x31\xc0",                     // xor eax,eax
		"\xfc",                         // cld
		"\xf3\x48\xab",                 // rep stosq: 8 KiB
		"\x48\x89\xe7",                 // mov rdi,rsp
		"\x48\xff\xc0",                 // inc rax
		"\x48\x89\x44\x24\x50",         // mov [rsp+80],rax
		"\xb9\x00\x04\x00\x00",         // mov ecx,1024
		"\xf2\x48\xaf",                 // repne scasq: 11 iterations
		"\x9c", "\x5a",                 // pushf; pop rdx
		"\x90", tinyelf.Exit(0))
	c, block := tiny(t, code)
	visits, r := run(t, c, Options{}, block(18, 42), block(42, 43))
	if len(visits) != 2 || len(visits[0].Before.Pages) < 3 || len(visits[0].Before.Pages) > 4 {
		t.Fatalf("%d visits: %+v", len(visits), r)
	}
	a := visits[0].After
	if a.GPR[1] != 1024-11 || a.GPR[7] != a.GPR[4]+88 || a.GPR[2]&(1<<8) != 0 || a.GPR[2]&(1<<6) == 0 {
		t.Errorf("rcx %d, rdi %#x, rsp %#x, flags %#x", a.GPR[1], a.GPR[7], a.GPR[4], a.GPR[2])
	}
}

// TestLeftOut: a block that cannot be captured is reported.
func TestLeftOut(t *testing.T) {
	c, block := tiny(t, tinyelf.Asm("\x90\x90", tinyelf.Exit(0)))
	bad := block(0, 2)
	bad.Code = []byte{0x90, 0x91}
	elsewhere := block(0, 2)
	elsewhere.File = "/bin/none"
	blocks := []Block{block(0, 2), block(0, 2), bad, elsewhere, {Code: []byte{0x0f, 0x05}}, {Code: []byte{0x06}}}
	_, r := run(t, c, Options{}, blocks...)
	var got []string
	for _, b := range r.Blocks {
		got = append(got, strings.SplitN(b.Out, ":", 2)[0])
	}
	want := []string{"", "it is listed twice", "other bytes are at its address in the program",
		"its file is not loaded when the program's own code begins", "syscall", "undecodable"}
	require.Equal(t, "it", want, got)
}

// TestManyPages: as many pages are captured as can be measured, though each access touches another.
func TestManyPages(t *testing.T) {
	var block []byte
	for i := range maxPages + 1 {
		block = append(block, 0x88, 0x84, 0x24) // mov [rsp+…], al
		block = binary.LittleEndian.AppendUint32(block, uint32(i*pageSize))
	}
	again := binary.LittleEndian.AppendUint32([]byte{0xff, 0xc9, 0x0f, 0x85}, -uint32(len(block)+8)) // dec ecx; jnz
	before := "\x48\x81\xec\x00\x20\x08\x00" + "\xb9\x02\x00\x00\x00"                                // sub rsp,…; mov ecx,2
	c, part := tiny(t, tinyelf.Asm(before, string(block), string(again), tinyelf.Exit(0)))
	const most, each = "it touches more than 128 pages", 7
	for n, want := range map[int]map[string]int{maxPages: {}, maxPages + 1: {most: 1}} {
		visits, r := run(t, c, Options{}, part(len(before), len(before)+n*each))
		delete(r.Blocks[0].Lost, "it touches an address where nothing is mapped") // the first visit grows the stack
		if diff := cmp.Diff(want, r.Blocks[0].Lost); diff != "" || len(visits) != 1-len(want) {
			t.Errorf("%d pages: %d visits; %s", n, len(visits), diff)
		}
	}
}
