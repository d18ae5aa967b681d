package study

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// TestAdjust: among many pairs a small p-value is chance; pairs that were not measured do not count.
func TestAdjust(t *testing.T) {
	of := func(p float64) *Comparison {
		return &Comparison{Conclusion: &compare.Conclusion{P: p, Verdict: compare.Slower}}
	}
	rejected := &Comparison{Rejection: &verdict.Rejection{}}
	all := []*Comparison{of(0.02), rejected, of(0.001), of(0.04)}
	adjust(all)
	type adjusted struct {
		P       float64
		Verdict compare.Verdict
	}
	var got []adjusted
	for _, c := range all {
		if c.concluded() {
			got = append(got, adjusted{c.Adjusted, c.Verdict})
		}
	}
	require.Equal(t, "adjusted", []adjusted{{0.04, compare.Slower}, {0.003, compare.Slower}, {0.04, compare.Slower}}, got)
	all = append(all, of(0.9))
	all[2].P = 0.02
	adjust(all)
	if all[0].Verdict != compare.Same || all[2].Adjusted != 0.08 {
		t.Errorf("of four pairs with p-values of 0.02: %s, %v", all[0].Verdict, all[2].Adjusted)
	}
}

// TestFrom: a program that is linked statically is compared from exec with one that is not.
func TestFrom(t *testing.T) {
	place := func(dynamic bool) []launch.Place {
		return launch.In(launch.Command{Exe: &launch.Executable{Dynamic: dynamic}}, make([]launch.Setup, 2))
	}
	for _, c := range []struct{ a, b, fromExec bool }{{true, true, false}, {false, false, false}, {true, false, true}} {
		p := placement{places: [][]launch.Place{place(c.a), place(c.b)}}
		said := p.from()
		require.Equal(t, said, c.fromExec, strings.HasPrefix(said, "exec"))
		for _, at := range slices.Concat(p.places...) {
			require.Equal(t, said, c.fromExec, at.Setup.FromExec)
		}
	}
}

// TestEqualStacks: however programs are compared, their stacks start at the same address.
func TestEqualStacks(t *testing.T) {
	for name, c := range map[string]compareCmd{"layouts": {layouts: 3}, "-env": {layouts: 2, env: []int{0, 4096}}} {
		p, closed, err := c.place(t.Context(), member{sides: [][]string{{"true"}, {"env", "Q=1", "true"}}}, cli.Streams{Err: io.Discard})
		require.Host(t, err)
		closed()
		for _, at := range slices.Concat(p.places...) {
			require.Equal(t, name, true, at.Setup.EqualStack)
		}
	}
}

// TestSuiteEnds: a program's failure does not affect the others, nor a host error the earlier ones.
func TestSuiteEnds(t *testing.T) {
	suite := []member{{name: "w"}, {name: "x"}, {name: "y"}, {name: "z"}}
	gone := &verdict.HostError{Missing: "an idle CPU"}
	bad := &launch.Error{Err: errors.New("exit status 1")}
	r := comparisons{compareCmd: &compareCmd{}}
	failed := r.ofSuite(suite, slices.Repeat([]placement{{commands: make([]sideReport, 2)}}, len(suite)), func(i int) ([]*Comparison, error) {
		switch i {
		case 1:
			return nil, bad
		case 3:
			return nil, gone
		}
		return []*Comparison{{Conclusion: &compare.Conclusion{P: 0.04, Verdict: compare.Slower},
			Pairs: []compare.Pair{{A: []float64{1}, B: []float64{2}}}}}, nil
	})
	var got []string
	for _, out := range r.all {
		line := out.Name + " " + out.Failure
		if out.concluded() {
			line += string(out.Verdict)
		}
		got = append(got, line)
	}
	want := []string{"w no difference", "x " + bad.Error(), "y no difference"}
	require.Equal(t, "rows", want, got)
	if !errors.Is(r.end, gone) || !errors.Is(failed, bad) || r.left != 1 {
		t.Errorf("%v, %v, %d left", r.end, failed, r.left)
	}
}

// TestReadSuite: a byte-order mark is not part of the first column's name; an error about an empty side names it.
func TestReadSuite(t *testing.T) {
	for _, text := range []string{"\ufeffname,a,b\r\nx,true,false\r\n", "\ufeff\"name\",a,b\nx,true,false\n", "name,a,b\nx,true,false\n"} {
		suite, err := (&compareCmd{suite: "-"}).readSuite(strings.NewReader(text))
		if err != nil || len(suite) != 1 || suite[0].name != "x" || suite[0].sides[1][0] != "false" {
			t.Errorf("%q: %v, %v", text, suite, err)
		}
	}
	for text, want := range map[string]string{
		"":                                     "-: it is empty",
		"name,a,b\nx,true,\n":                  "-: row 1: column b is empty: write a command line",
		"name,a,b\nx, ,true\n":                 "-: row 1: column a is empty",
		"name,a,b\nx,true,true\nx,true,true\n": `-: row 2: another row is named "x"`,
		"name,a,b,args\nx,true,true,y\n":       "-: row 1: column args is for programs that -link links",
	} {
		if _, err := (&compareCmd{suite: "-"}).readSuite(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestJoinedAlike: results are joined only of what was measured alike, and no name stands for two comparisons.
func TestJoinedAlike(t *testing.T) {
	dir := t.TempDir()
	result := func(name, set, more string) string {
		file := filepath.Join(dir, name)
		line := fmt.Sprintf(`{"settings":{"mode":"loop","set":%q},"a":{"hex":"90","init":"paper"},"b":{"hex":"9090","init":"paper"%s},"method":"t","degrees_of_freedom":3,"ci_high_percent":1}`, set, more)
		require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
		return file
	}
	here := result("here", "rax=1", "")
	twice := filepath.Join(dir, "twice")
	one, err := os.ReadFile(here)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(twice, slices.Repeat(one, 2), 0o600))
	for there, want := range map[string]string{
		result("same", "rax=1", ""):                "",
		result("set", "rax=2", ""):                 `setting set: "rax=2", here "rax=1"`,
		result("state", "rax=1", `,"set":"rcx=1"`): "initial state of b: paper with rcx=1, here paper",
		twice: "object 2: it holds 9090 against 90 twice",
	} {
		var out strings.Builder
		c := compareCmd{against: there, results: []string{here}}
		err := c.join(cli.Streams{Out: &out, Err: io.Discard})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", there, err, want)
		}
	}
}

// TestJoinedScatter: two results of the same layouts are drawn as a point for each, with the best of both machines marked.
func TestJoinedScatter(t *testing.T) {
	result := func(speedups ...float64) *Comparison {
		out := &Comparison{Conclusion: &compare.Conclusion{}}
		for i, s := range speedups {
			out.Pairs = append(out.Pairs, compare.Pair{Layout: compare.Layout{Number: i + 1, Stack: 16}, A: []float64{s}, B: []float64{1}})
		}
		return out
	}
	series := joinedFigure([]joinRow{{Here: result(1, 3, 2), There: result(6, 5, 4)}}).Panels[0].Series
	var drawn [][]float64
	for _, s := range series {
		drawn = append(drawn, s.X, s.Y)
	}
	require.Equal(t, "points, best here, best there", [][]float64{{1, 2, 3}, {6, 4, 5}, {3}, {5}, {1}, {6}}, drawn)
	if names := joinedFigure([]joinRow{{Here: result(1, 3), There: result(6)}}).Panels[0].Names; len(names) != 1 {
		t.Errorf("of other layouts: %q", names)
	}
}
