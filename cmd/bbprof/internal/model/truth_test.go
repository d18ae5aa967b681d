package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/require"
)

// TestTruthRerun: a block that any row has measured counts, in any order of the files, with the weight of all its rows.
func TestTruthRerun(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{
		"first.csv": "90,rejected,unstable,,1\n91,rejected,unstable,,1\n4801c0,ok,,1,1\n90,rejected,unstable,,2\n",
		"rerun.csv": "90,ok,,0.25,4\n92,,,1,1\n91,rejected,clock_drift,,1\n4801c0,rejected,unstable,,1\n",
	} {
		files = append(files, filepath.Join(dir, name))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("hex,status,reason,cycles,weight\n"+text), 0o600))
	}
	slices.Sort(files)
	for _, reason := range []string{"unstable", "clock_drift"} { // the first file's
		got := require.Get(readTruth(files, nil, truthOptions{}))(t)
		slices.SortFunc(got.blocks, func(a, b score.Block) int { return strings.Compare(a.Hex, b.Hex) })
		var blocks []score.Block
		for _, b := range got.blocks {
			blocks = append(blocks, score.Block{Hex: b.Hex, Cycles: b.Cycles, Weight: b.Weight})
		}
		require.Equal(t, files, []score.Block{{Hex: "4801c0", Cycles: 1, Weight: 2}, {Hex: "90", Cycles: 0.25, Weight: 7}}, blocks)
		if d := cmp.Diff(map[string]int{reason: 1, "no status": 1}, got.rejected()); d != "" || got.rows != 8 || got.repeated != 4 {
			t.Errorf("%v: %d rows, %d repeated, rejected (- want, + got):\n%s", files, got.rows, got.repeated, d)
		}
		slices.Reverse(files)
	}
}

// TestTruthSpellings: a block counts in any spelling, also in the first line of a file without a header; models see
// lower case.
func TestTruthSpellings(t *testing.T) {
	for _, text := range []string{
		"hex,cycles\n4801C0,1\n48 01 c1,2\n0x90,0.25\n4801c0,1.03\n",
		"4801C0,1\n48 01 c1,2\n90,0.25\n4801c0,1.03\n",
	} {
		name := filepath.Join(t.TempDir(), "truth.csv")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		got := require.Get(readTruth([]string{name}, nil, truthOptions{}))(t)
		if d := cmp.Diff([]string{"4801c0", "4801c1", "90"}, got.hexes()); d != "" || got.rows != 4 || got.repeated != 1 || got.blocks[0].Cycles != 1 {
			t.Errorf("%q: %d rows, %d repeated, the first %+v; blocks (- want, + got):\n%s", text, got.rows, got.repeated, got.blocks[0], d)
		}
	}
}

// TestTruthApart: a block whose rows differ, as from several captured states, is left out: models see only its bytes.
func TestTruthApart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "truth.csv")
	const text = "hex,status,cycles,set\n4801c0,ok,1,\n488b03,ok,8,\n488b03,rejected,,rbx=1\n488b03,ok,0.5,rbx=0x1000\n488B03,ok,8,\n4801c0,ok,1.04,rax=1\n"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	for _, c := range []struct {
		options   truthOptions
		want      []string
		sensitive int
	}{
		{truthOptions{}, []string{"4801c0"}, 1},
		{truthOptions{sensitive: true}, []string{"4801c0", "488b03"}, 0},
	} {
		got := require.Get(readTruth([]string{name}, nil, c.options))(t)
		if !slices.Equal(got.hexes(), c.want) || got.sensitive != c.sensitive || got.repeated != 4 || got.blocks[0].Cycles != 1 {
			t.Errorf("%+v: %q, %d sensitive, %d repeated, the first %+v", c.options, got.hexes(), got.sensitive, got.repeated, got.blocks[0])
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

// TestTruthForwards: loads that wait for stores only because registers start equal are not the model's mistake, even if
// no other state can measure the block. Blocks without such loads stay.
func TestTruthForwards(t *testing.T) {
	dir := t.TempDir()
	names := [2]string{filepath.Join(dir, "paper.csv"), filepath.Join(dir, "distinct.csv")}
	for name, text := range map[string]string{
		names[0]: "hex,status,cycles,self_forwarding_loads\n4801c0,ok,1,0\nf20ff046a3f30f7f47a3,ok,20.99,6\n488b4310,ok,0.34,0\n",
		names[1]: "hex,status,cycles,self_forwarding_loads\n4801c0,ok,1,0\nf20ff046a3f30f7f47a3,rejected,,\n488b4310,rejected,,\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readTruth(names[:1], nil, truthOptions{})
	if err == nil {
		err = got.dropSensitive(names[1:], nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"4801c0", "488b4310"}; !slices.Equal(got.hexes(), want) || got.sensitive != 1 {
		t.Errorf("%q are left, %d sensitive; want %q", got.hexes(), got.sensitive, want)
	}
}
