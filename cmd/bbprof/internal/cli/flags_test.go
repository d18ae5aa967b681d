package cli

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestParse covers the forms of a command line.
func TestParse(t *testing.T) {
	type line struct {
		V, W     bool
		N        int
		Name     string
		Operands []string
		Program  []string
	}
	for _, c := range []struct {
		args string
		want line
		err  string
	}{
		{args: "", want: line{N: 1}},
		{args: "-v -n 2", want: line{V: true, N: 2}},
		{args: "--v --n=2 a", want: line{V: true, N: 2, Operands: []string{"a"}}},
		{args: "a -n 2 b -", want: line{N: 2, Operands: []string{"a", "b", "-"}}},
		{args: "-v false a", want: line{N: 1, Operands: []string{"a"}}},
		{args: "-v=false -w true", want: line{W: true, N: 1}},
		{args: "-v falsehood", want: line{V: true, N: 1, Operands: []string{"falsehood"}}},
		{args: "-name -n", want: line{N: 1, Name: "-n"}},
		{args: "-name=", want: line{N: 1}},
		{args: "a -- -v -n x", want: line{N: 1, Operands: []string{"a"}, Program: []string{"-v", "-n", "x"}}},
		{args: "-n", err: "-n needs a value: -n N (bbprof x -h tells more)"},
		{args: "-n 0", err: `invalid value "0" for flag -n: write a whole number from 1 on`},
		{args: "-v=maybe", err: `invalid value "maybe" for flag -v: write true or false`},
		{args: "-nmae x", err: "unknown flag -nmae; did you mean -name? (bbprof x -h lists the flags)"},
		{args: "--verbose", err: "unknown flag -verbose; did you mean -v? (bbprof x -h lists the flags)"},
		{args: "--quiet", err: "unknown flag -quiet (bbprof x -h lists the flags)"}, // there is no -q
		{args: "-frobnicate", err: "unknown flag -frobnicate (bbprof x -h lists the flags)"},
		{args: "-v -help", err: "help"},
	} {
		got := line{N: 1}
		f := NewFlags("bbprof x")
		f.Operands, f.Program = &got.Operands, &got.Program
		f.Toggle(&got.V, "v", "")
		f.Toggle(&got.W, "w", "")
		f.Text(&got.Name, "name", "TEXT", "")
		f.Number(&got.N, 1, "n", "")
		switch err := f.Parse(strings.Fields(c.args)); {
		case err != nil && err.Error() != c.err || err == nil && c.err != "":
			t.Errorf("%q: error %v, want %q", c.args, err, c.err)
		case err == nil:
			require.Equal(t, c.args, c.want, got)
		}
	}
}

// TestShares: a percentage and a fraction are both accepted.
func TestShares(t *testing.T) {
	for text, want := range map[string]float64{"0.005": 0.005, "0.5%": 0.005, " 5 % ": 0.05, "0": 0, "110%": 1.1} {
		require.Equal(t, text, want, require.Get(ParseShare(text))(t))
	}
	for _, text := range []string{"", "%", "-1%", "Inf", "NaN", "5%%", "half"} {
		if got, err := ParseShare(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
