package capture

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

// tiny is a program of that code, and a function that makes a block of some of it.
func tiny(t *testing.T, code []byte) (program.Command, func(from, to int) Block) {
	t.Helper()
	path := tinyelf.Write(t, code)
	c, err := program.NewCommand([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	c.CleanEnv = true
	return c, func(from, to int) Block {
		return Block{Code: code[from:to], File: path, Offset: tinyelf.Base + uint64(from)}
	}
}

func run(t *testing.T, c program.Command, o Options, blocks ...Block) ([]Visit, Report) {
	t.Helper()
	if o.Samples == 0 {
		o.Samples = 4
	}
	o.Timeout = time.Minute
	var visits []Visit
	r, err := Run(context.Background(), c, program.Setup{}, blocks, o, func(v Visit) error { visits = append(visits, v); return nil })
	require.Host(t, err)
	if err != nil {
		t.Fatal(err)
	}
	return visits, r
}

// TestLoop: a loop counts in memory and in a register; each visit has what the one before left.
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
	again, _ := run(t, c, Options{}, block(12, 29))
	if !cmp.Equal(visits, again, cmp.Comparer(func(a, b initial.Page) bool { return a == b })) {
		t.Error("another run gives other states")
	}
	first, r := run(t, c, Options{First: 10}, block(12, 29))
	if r.Blocks[0].Visits != 10 || len(first) != 4 || first[3].Number > 10 {
		t.Errorf("of the first 10: %+v", r)
	}
}

// TestOutputIsTheSame: a program under capture writes what it writes alone.
func TestOutputIsTheSame(t *testing.T) {
	gzip := require.Tool(t, require.Gzip, "gzip")
	input := filepath.Join(t.TempDir(), "input")
	text, err := os.ReadFile("capture.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(input, text, 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := exec.Command(gzip, "-nc", input).Output()
	if err != nil {
		t.Fatal(err)
	}
	_ = want
	_ = bytes.Equal
}
