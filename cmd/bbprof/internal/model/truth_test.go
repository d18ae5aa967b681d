package model

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestTruth: a block counts once, with the weight of all its rows, and not at all if its rows differ by state.
func TestTruth(t *testing.T) {
	const rows = "4801C0,1\n48 01 c1,2\n0x90,0.25\n4801c0,1.03\n"
	const states = "hex,status,cycles,set\n4801c0,ok,1,\n488b03,ok,8,\n488b03,rejected,,rbx=1\n488b03,ok,0.5,rbx=0x1000\n488B03,ok,8,\n4801c0,ok,1.04,rax=1\n"
	const first = "hex,status,reason,cycles,weight\n90,rejected,unstable,,1\n91,rejected,unstable,,1\n4801c0,ok,,1,1\n90,rejected,unstable,,2\n"
	const rerun = "hex,status,reason,cycles,weight\n90,ok,,0.25,4\n92,,,1,1\n91,rejected,clock_drift,,1\n4801c0,rejected,unstable,,1\n"
	const paper = "hex,status,cycles,self_forwarding_loads\n4801c0,ok,1,0\nf20ff046a3f30f7f47a3,ok,20.99,6\n488b4310,ok,0.34,0\n"
	const distinct = "hex,status,cycles,self_forwarding_loads\n4801c0,ok,1,0\nf20ff046a3f30f7f47a3,rejected,,\n488b4310,rejected,,\n"
	const loops = "hex,status,cycles,loop_cycles,loops_take\n4801c0,ok,1,,cycles\n488b03,ok,8,2,loop_cycles\n488b0b,ok,8,,\n"
	for _, c := range []struct {
		texts               []string
		otherInit           string
		options             truthOptions
		blocks, rejected    string
		sensitive, repeated int
	}{
		{[]string{"hex,cycles\n" + rows}, "", truthOptions{}, "4801c0: 1 (0), 4801c1: 2 (0), 90: 0.25 (0), ", "map[]", 0, 1},
		{[]string{rows}, "", truthOptions{}, "4801c0: 1 (0), 4801c1: 2 (0), 90: 0.25 (0), ", "map[]", 0, 1},
		{[]string{states}, "", truthOptions{}, "4801c0: 1 (0), ", "map[]", 1, 4},
		{[]string{states}, "", truthOptions{again: true}, "4801c0: 1 (0), 488b03: 8 (0), ", "map[]", 0, 4},
		{[]string{first, rerun}, "", truthOptions{}, "4801c0: 1 (2), 90: 0.25 (7), ", "map[no status:1 unstable:1]", 0, 4},
		{[]string{rerun, first}, "", truthOptions{}, "90: 0.25 (7), 4801c0: 1 (2), ", "map[clock_drift:1 no status:1]", 0, 4},
		{[]string{paper}, distinct, truthOptions{}, "4801c0: 1 (0), 488b4310: 0.34 (0), ", "map[]", 1, 0},
		{[]string{loops}, "", truthOptions{cycles: "loops_take"}, "4801c0: 1 (0), 488b03: 2 (0), ", "map[no cycles:1]", 0, 0},
	} {
		var names []string
		for i, text := range append(c.texts, c.otherInit) {
			names = append(names, filepath.Join(t.TempDir(), fmt.Sprint(i, ".csv")))
			require.NoError(t, os.WriteFile(names[i], []byte(text), 0o600))
		}
		other := len(names) - 1
		got := require.Get(readTruth(names[:other], nil, c.options))(t)
		if c.otherInit != "" {
			require.NoError(t, got.dropSensitive(names[other:], nil))
		}
		blocks := ""
		for _, b := range got.blocks {
			blocks += fmt.Sprintf("%s: %v (%v), ", b.Hex, b.Cycles, b.Weight)
		}
		rejected := fmt.Sprint(got.rejected())
		if blocks != c.blocks || rejected != c.rejected || got.sensitive != c.sensitive || got.repeated != c.repeated {
			t.Errorf("%q: %s, rejected %s, %d sensitive, %d repeated; want %+v", c.texts, blocks, rejected, got.sensitive, got.repeated, c)
		}
	}
}
