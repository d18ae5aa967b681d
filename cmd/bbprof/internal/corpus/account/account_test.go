package account

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

func TestTabulate(t *testing.T) {
	f, g, h := Place{"a", "f"}, Place{"a", "g"}, Place{"b", "h"}
	run := Run{UserSeconds: []float64{3, 1, 2}, CyclesPerSecond: 25, Samples: map[Place]float64{f: 8, h: 2}}
	got := Tabulate([]Block{
		{Place: f, Count: 10, Instructions: 3, Cycles: 2, Measured: true, Terminated: true},
		{Place: f, Count: 10, Instructions: 1, Cycles: 4, Terminated: true},
		{Place: g, Count: 5, Instructions: 4, Cycles: 1, Measured: true, InPlace: 3},
	}, run)
	forty, ten, half, none := 40.0, 10.0, 0.5, 0.0
	want := Table{
		Run: run, Cycles: 50, BlockCycles: 25, Share: 0.5, Instructions: 60, Transfers: 20,
		Unmeasured: 1.0 / 6,
		Functions: []Line{
			{Place: f, Cycles: &forty, BlockCycles: 20, Share: &half, Unmeasured: 0.25},
			{Place: h, Cycles: &ten, Share: &none},
			{Place: g, BlockCycles: 5, InPlace: Timed{15, 5}},
		},
	}
	require.Equal(t, "it", want, got, cmpopts.IgnoreUnexported(Line{}))
	if text := got.Report(3); !strings.Contains(text, "rejected  in place  those alone  function\n") ||
		!strings.Contains(text, "0.0 %     15        5            g (a)\n") {
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
