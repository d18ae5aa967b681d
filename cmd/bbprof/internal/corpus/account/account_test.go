package account

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

func TestTabulate(t *testing.T) {
	f, g, h := Place{"a", "f"}, Place{"a", "g"}, Place{"b", "h"}
	run := Run{UserSeconds: []float64{3, 1, 2}, CyclesPerSecond: 25, Samples: map[Place]float64{f: 8, h: 2},
		Missed: map[Place]Missed{h: {L1: 0.1, Branches: 0.5}, g: {L2: 0.05}}}
	got := Tabulate([]Block{
		{Place: f, Count: 10, Instructions: 3, Cycles: 2, Measured: true, Terminated: true},
		{Place: f, Count: 10, Instructions: 1, Cycles: 4, Terminated: true},
		{Place: g, Count: 5, Instructions: 4, Cycles: 1, Measured: true, InPlace: 3},
		{Place: h, Count: 1, Cycles: 2, Measured: true},
	}, run)
	forty, ten, half, fifth, most := 40.0, 10.0, 0.5, 0.2, 0.1*(2+0.1*10+0.5*17)
	want := Table{
		Run: run, Cycles: 50, BlockCycles: 27, Share: 0.54, Instructions: 60, Transfers: 20,
		Unmeasured: 1.0 / 6, Missed: &Misses{Missed{0.1, 0.05, 0.5}, 4, 8.5, (27 + 4 + 8.5) / 50},
		Functions: []Line{
			{Place: f, Cycles: &forty, BlockCycles: 20, Share: &half, WithMisses: &half, Unmeasured: 0.25},
			{Place: h, Cycles: &ten, BlockCycles: 2, Share: &fifth, WithMisses: &most},
			{Place: g, BlockCycles: 5, InPlace: Timed{15, 5}},
		},
	}
	require.Equal(t, "it", want, got, cmpopts.IgnoreUnexported(Line{}))
	if text := got.Report(3); !strings.Contains(text, "with misses  rejected  in place  those alone  function\n") ||
		!strings.Contains(text, "-              -            0.0 %     15        5            g (a)\n") ||
		!strings.Contains(text, "loads       4 cycles") || !strings.Contains(text, "together    0.79 of") || !strings.Contains(text, "  0.20           1.15 ") {
		t.Errorf("the report:\n%s", text)
	}
	Tabulate(nil, Run{}) // must not divide by zero
}

// TestRead: cycles that branch records gave a block in its program are taken where there are any.
func TestRead(t *testing.T) {
	const text = "hex,status,cycles,file,function,count,cycles_in_place\n4801c0,ok,1,f,main,2,3.5\n4801c8,ok,1,f,main,1,\n"
	blocks := require.Get(Read([]string{"-"}, strings.NewReader(text), io.Discard))(t)
	if len(blocks) != 2 || blocks[0].InPlace != 3.5 || blocks[1].InPlace != 0 {
		t.Errorf("%+v", blocks)
	}
}

// TestReadBranches: a branch that the code holds is not left out; a second result measures what the first rejected, also one of visits.
func TestReadBranches(t *testing.T) {
	const header = "hex,status,reason,cycles,file,function,address,count,terminator,input_instructions,branch,source_line\n"
	first := require.File(t, "first.csv", header+
		"48ffc875fb,ok,,1,/bin/x,f,0x10,10,jne 0x10,1,taken,a.c:3\n"+
		"4801c0,ok,,2,/bin/x,f,0x20,5,ret,4,,a.c:5\n"+
		"480fafc875fa,rejected,loop_exit,,/bin/x,f,0x30,10,jne 0x30,1,taken,a.c:7\n")
	for _, c := range []struct {
		name, second string
		cycles       float64
		unmeasured   float64
		hottest      string
	}{
		{"one result", header, 20, 1.0 / 3, "a.c:3"},
		{"a second", header + "48ffc875fb,ok,,9,/bin/x,f,0x10,10,jne 0x10,1,not-taken,a.c:3\n480fafc875fa,ok,,3,/bin/x,f,0x30,10,jne 0x30,1,not-taken,a.c:7\n", 50, 0, "a.c:7"},
		{"visits", "hex,status,reason,cycles,state,file,function,address,offset\n48ffc875fb,ok,,9,s.states#1,/bin/x,f,0x55550010,0x10\n" +
			"480fafc875fa,ok,,3,s.states#2,/bin/x,f,0x55550030,0x30\n480fafc875fa,rejected,unstable,,s.states#3,/bin/x,f,0x55550030,0x30\n" +
			"480fafc875fa,ok,,5,s.states#4,/bin/x,f,0x55550030,0x30\n", 60, 0, "a.c:7"},
	} {
		blocks := require.Get(Read([]string{first, require.File(t, "second.csv", c.second)}, nil, io.Discard))(t)
		want := Table{BlockCycles: c.cycles, Instructions: 60, Transfers: 5, Unmeasured: c.unmeasured,
			Functions: []Line{{Place: Place{"/bin/x", "f"}, BlockCycles: c.cycles, Unmeasured: c.unmeasured, Hottest: c.hottest}}}
		require.Equal(t, c.name, want, Tabulate(blocks, Run{}), cmpopts.IgnoreUnexported(Line{}))
	}
}

// TestReadLoops: a loop's iteration takes the place of what its blocks take alone, of its visits by their iterations, and an outer loop that of
// an inner one.
func TestReadLoops(t *testing.T) {
	// 0x10: test al, al; je 0x16; 0x14: inc eax; 0x16: dec ecx; jne 0x16; 0x1a: dec edx; jne 0x10
	const outer, inner = "84c07402ffc0ffc975fcffca75f2", "ffc975fc"
	blocks := require.File(t, "blocks.csv", "hex,status,cycles,file,function,count,terminator,address,instructions\n"+
		"84c0,ok,1,f,main,10,je 0x16,0x10,1\nffc0,rejected,,f,main,5,,0x14,1\nffc9,ok,2,f,main,100,jne 0x16,0x16,1\n"+
		"ffca,ok,3,f,main,10,jne 0x10,0x1a,1\n90,ok,4,f,main,1,,0x1e,1\n90,ok,5,g,main,1,,0x16,1\n")
	row := func(hex, offset, entry, status, cycles, iterations string, skipped ...string) string {
		return strings.Join([]string{hex, "s#1", status, cycles, "f", "main", offset, entry, iterations, strings.Join(append(skipped, "")[:1], ",")}, ",") + "\n"
	}
	const header = "hex,state,status,cycles,file,function,offset,entry,unroll_long,skipped\n"
	for _, c := range []struct {
		name, loops string
		want        []float64 // cycles of each block, -1 where it is not measured
		terminated  int
	}{
		{"none", row(inner, "0x16", "0", "rejected", "", ""), []float64{1, -1, 2, 3, 4, 5}, 3},
		{"the inner one", row(inner, "0x16", "0", "ok", "7", "30") + row(inner, "0x16", "0", "ok", "3", "10"), []float64{1, -1, 6, 3, 4, 5}, 2},
		{"one of its visits from near its end", row(inner, "0x16", "0", "ok", "7", "30", "70") + row(inner, "0x16", "0", "ok", "2", "25"), []float64{1, -1, 6, 3, 4, 5}, 2},
		{"both", row(inner, "0x16", "0", "ok", "7", "30") + row(outer, "0x10", "0", "ok", "50", "10"), []float64{50, 0, 0, 0, 4, 5}, 0},
		{"elsewhere", row(inner, "0x15", "0", "ok", "7", "30"), []float64{1, -1, 2, 3, 4, 5}, 3},
	} {
		got := require.Get(Read([]string{blocks, require.File(t, "loops.csv", header+c.loops)}, strings.NewReader(""), io.Discard))(t)
		terminated := 0
		for i, b := range got {
			if !b.Measured {
				b.Cycles = -1
			}
			if b.Terminated {
				terminated++
			}
			require.Equal(t, fmt.Sprintf("%s: cycles of block %d", c.name, i), c.want[i], b.Cycles)
		}
		require.Equal(t, c.name+": blocks with a transfer that is left out", c.terminated, terminated)
	}
}

// TestReadStates: what batch -state made has no counts, and cannot be the first result.
func TestReadStates(t *testing.T) {
	_, err := Read([]string{"-"}, strings.NewReader("hex,status,cycles,file,function,offset,state\n4801c0,ok,1,f,main,0x10,s#1\n"), io.Discard)
	require.Fails(t, "states alone", err, "has no counts; name what bbprof batch made of the blocks of bbprof extract -run first")
}
