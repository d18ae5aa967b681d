package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// files writes files into a new folder and returns their names in order.
func files(t *testing.T, texts ...string) (names []string) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		names = append(names, filepath.Join(dir, fmt.Sprint(i, ".csv")))
		require.NoError(t, os.WriteFile(names[i], []byte(text), 0o600))
	}
	return names
}

// TestTruthRerun: a block that any row has measured counts, in any order of the files, with the weight of all its rows.
func TestTruthRerun(t *testing.T) {
	names := files(t, "hex,status,reason,cycles,weight\n90,rejected,unstable,,1\n91,rejected,unstable,,1\n4801c0,ok,,1,1\n90,rejected,unstable,,2\n",
		"hex,status,reason,cycles,weight\n90,ok,,0.25,4\n92,,,1,1\n91,rejected,clock_drift,,1\n4801c0,rejected,unstable,,1\n")
	for _, reason := range []string{"unstable", "clock_drift"} { // the first file's
		got := require.Get(readTruth(names, nil, truthOptions{}))(t)
		var blocks []string
		for _, b := range got.blocks {
			blocks = append(blocks, fmt.Sprint(b.Hex, " ", b.Cycles, " ", b.Weight))
		}
		slices.Sort(blocks)
		require.Equal(t, reason, []string{"4801c0 1 2", "90 0.25 7"}, blocks)
		require.Equal(t, reason, map[string]int{reason: 1, "no status": 1}, got.rejected())
		if got.rows != 8 || got.repeated != 4 {
			t.Errorf("%d rows, %d repeated", got.rows, got.repeated)
		}
		slices.Reverse(names)
	}
}

// TestTruthCounts: a block counts once, in any spelling, also in the first line of a file without a header; models see lower
// case. One whose rows differ, as from several captured states, is left out: models see only its bytes. Loads that wait
// for stores only because registers start equal are not the model's mistake, even if no other state can measure the block.
func TestTruthCounts(t *testing.T) {
	const rows = "4801C0,1\n48 01 c1,2\n0x90,0.25\n4801c0,1.03\n"
	const states = "hex,status,cycles,set\n4801c0,ok,1,\n488b03,ok,8,\n488b03,rejected,,rbx=1\n488b03,ok,0.5,rbx=0x1000\n488B03,ok,8,\n4801c0,ok,1.04,rax=1\n"
	const paper = "hex,status,cycles,self_forwarding_loads\n4801c0,ok,1,0\nf20ff046a3f30f7f47a3,ok,20.99,6\n488b4310,ok,0.34,0\n"
	const distinct = "hex,status,cycles,self_forwarding_loads\n4801c0,ok,1,0\nf20ff046a3f30f7f47a3,rejected,,\n488b4310,rejected,,\n"
	for _, c := range []struct {
		text, otherInit     string
		options             truthOptions
		want                []string
		sensitive, repeated int
	}{
		{"hex,cycles\n" + rows, "", truthOptions{}, []string{"4801c0", "4801c1", "90"}, 0, 1},
		{rows, "", truthOptions{}, []string{"4801c0", "4801c1", "90"}, 0, 1},
		{states, "", truthOptions{}, []string{"4801c0"}, 1, 4},
		{states, "", truthOptions{again: true}, []string{"4801c0", "488b03"}, 0, 4},
		{paper, distinct, truthOptions{}, []string{"4801c0", "488b4310"}, 1, 0},
	} {
		names := files(t, c.text, c.otherInit)
		got := require.Get(readTruth(names[:1], nil, c.options))(t)
		if c.otherInit != "" {
			require.NoError(t, got.dropSensitive(names[1:], nil))
		}
		if !slices.Equal(got.hexes(), c.want) || got.sensitive != c.sensitive || got.repeated != c.repeated || got.blocks[0].Cycles != 1 {
			t.Errorf("%q: %q, %d sensitive, %d repeated, the first %+v; want %q", c.text, got.hexes(), got.sensitive, got.repeated, got.blocks[0], c.want)
		}
	}
}

// TestTruthOfLoops: column loops_take names the column that holds the cycles; where it is empty, there are none.
func TestTruthOfLoops(t *testing.T) {
	name := filepath.Join(t.TempDir(), "truth.csv")
	const text = "hex,status,cycles,loop_cycles,loops_take\n4801c0,ok,1,,cycles\n488b03,ok,8,2,loop_cycles\n488b0b,ok,8,,\n"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	got := require.Get(readTruth([]string{name}, nil, truthOptions{cycles: "loops_take"}))(t)
	require.Equal(t, "blocks", []string{"4801c0", "488b03"}, got.hexes())
	require.Equal(t, "cycles", []float64{1, 2}, []float64{got.blocks[0].Cycles, got.blocks[1].Cycles})
	require.Equal(t, "without", map[string]int{"no cycles": 1}, got.rejected())
}
