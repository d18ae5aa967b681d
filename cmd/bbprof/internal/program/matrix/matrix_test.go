package matrix

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/count"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/require"
)

func TestFit(t *testing.T) {
	sizes := []int{10, 100, 1000}
	for _, c := range []struct {
		name   string
		counts []float64
		want   Order
	}{
		{"the same", []float64{3, 3, 3}, Constant},
		{"within 10 %", []float64{100, 100, 110}, Constant},
		{"just beyond 10 %", []float64{100, 100, 111}, Linear},
		{"a search by halves", []float64{4*5 + 7, 7*5 + 7, 10*5 + 7}, Logarithmic},
		{"a loop", []float64{73, 613, 6013}, Linear},
		{"a loop of vectors with a remainder", []float64{20 + 2*4 + 2*5, 20 + 25*4, 20 + 250*4}, Linear},
		{"a merge sort", []float64{5*33 + 100, 5*664 + 1000, 5*9966 + 10000}, Linearithmic},
		{"two loops in one another", []float64{463, 40603, 4006003}, Quadratic},
		{"shrinking", []float64{1434, 4, 4}, Other},
		{"cubic", []float64{1e3, 1e6, 1e9}, Other},
	} {
		require.Equal(t, c.name, c.want, fit(sizes, c.counts))
	}
	require.Equal(t, "a search by halves, at sizes near one another", Logarithmic, fit([]int{10, 30, 100}, []float64{36, 44, 60}))
	require.Equal(t, "nothing", Constant, fit([]int{1, 2, 4, 8}, []float64{0, 0, 0, 0}))
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		b    Build
		want string // "" means an error
	}{
		{Build{"gcc-12", "O2"}, "gcc-12|-O2|-o|p|f"},
		{Build{"/usr/bin/clang -march=native", "-O3 -flto"}, "/usr/bin/clang|-march=native|-O3|-flto|-o|p|f"},
		{Build{"rustc", "O2"}, "rustc|-Copt-level=2|-o|p|f"},
		{Build{"go", "O0"}, "go|build|-gcflags=-N -l|-o|p|f"},
		{Build{"go", "O2"}, "go|build|-o|p|f"},
		{Build{"gcc -lm -static -lz", "O2"}, "gcc|-static|-O2|-o|p|f|-lm|-lz"},
		{Build{"gcc 'x", "O2"}, ""},
		{Build{"gcc", " "}, ""},
	} {
		got, err := c.b.command("f", "p")
		if strings.Join(got, "|") != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c.b, got, err)
		}
	}
}

func TestExpectation(t *testing.T) {
	sizes := []int{10, 100, 1000}
	cell := func(compiler string, growth Order, last uint64) Cell {
		return Cell{Build: Build{compiler, "O2"}, Growth: growth, Instructions: []uint64{1, 2, last}}
	}
	rows := Expectation("f", sizes, []Cell{cell("a", Linear, 1000), cell("b, c", Constant, 3)})
	var text bytes.Buffer
	require.NoError(t, Write(&text, rows))
	read, err := Read(&text)
	if diff := cmp.Diff(rows, read); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	merged := Merge(rows, Expectation("f", sizes, []Cell{cell("a", Constant, 5), cell("d", Linear, 7)}))
	if len(merged) != 3 || merged[0].Instructions != 5 || merged[2].Compiler != "d" {
		t.Errorf("%+v", merged)
	}
	for _, c := range []struct {
		name     string
		function string
		sizes    []int
		cell     Cell
		want     Outcome
	}{
		{"the same", "f", sizes, cell("a", Linear, 1000), AsExpected},
		{"10 % more", "f", sizes, cell("a", Linear, 1100), AsExpected},
		{"more than 10 % more", "f", sizes, cell("a", Linear, 1101), Lost},
		{"10 % less", "f", sizes, cell("a", Linear, 910), AsExpected},
		{"less by more", "f", sizes, cell("a", Linear, 909), Better},
		{"faster growth", "f", sizes, cell("a", Linearithmic, 1000), Lost},
		{"slower growth", "f", sizes, cell("a", Constant, 1000), Better},
		{"more at another size", "f", []int{10, 100, 2000}, cell("a", Linear, 2000), AsExpected},
		{"another function", "g", sizes, cell("a", Linear, 1000), New},
		{"another build", "f", sizes, cell("e", Linear, 1000), New},
	} {
		cells := []Cell{c.cell}
		Compare(c.function, c.sizes, cells, rows, 1.1)
		require.Equal(t, c.name, c.want, cells[0].Outcome)
	}
	for _, bad := range []string{"", "a,b\n", "compiler,level,function,growth,size,instructions\ngcc,O2,f,n,x,1\n",
		"compiler,level,function,growth,size,instructions\ngcc,O2,f,cubic,1,1\n"} {
		if rows, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %+v", bad, rows)
		}
	}
}

// TestRun: gcc loops at -O0; at -O2 a multiplication is left.
func TestRun(t *testing.T) {
	require.Tool(t, require.GCC, "gcc")
	const source = "../../../../../testdata/programs/sums.c"
	done := 0
	p := Plan{Source: source, Function: "product", Builds: []Build{{"gcc", "O0"}, {"gcc", "O2"}}, Sizes: []int{10, 20, 80},
		Count: count.Options{Method: count.Step}, Done: func(n int) { done = n }}
	cells, err := Run(context.Background(), p)
	require.Host(t, err)
	require.NoError(t, err)
	if len(cells) != 2 || cells[0].Growth != Linear || cells[1].Growth != Constant || cells[1].Instructions[2] > 10 || done != p.Steps() {
		t.Errorf("%d of %d done: %+v", done, p.Steps(), cells)
	}
	bad := require.File(t, "bad.c", "int main( {")
	for _, c := range []struct {
		compiler, source, function, says string
	}{
		{"no-such-compiler", source, "product", "there is no such compiler"},
		{"gcc", bad, "product", "it does not compile"},
		{"gcc", source, "produkt", "no function is called produkt"},
	} {
		p.Builds, p.Source, p.Function = []Build{{c.compiler, "O2"}}, c.source, c.function
		_, err := Run(context.Background(), p)
		require.FailsAs[*launch.Error](t, err, c.says)
	}
}

// TestNotes: how the calls and the program ended stands with the counts; a call in which it crashed is none.
func TestNotes(t *testing.T) {
	require.Tool(t, require.GCC, "gcc")
	run := func(call, after string) ([]Cell, error) {
		source := require.File(t, "p.c", `#include <setjmp.h>
#include <stdlib.h>
static jmp_buf back; static volatile long n;
__attribute__((noinline, noclone)) void f(void) { n = n; `+call+` }
int main(int c, char **v) { n = atol(v[1]); if (!setjmp(back)) f(); `+after+` return 0; }`)
		cells, err := Run(context.Background(), Plan{Source: source, Function: "f", Builds: []Build{{"gcc", "O1"}}, Sizes: []int{10, 20, 80},
			Count: count.Options{Method: count.Step}, Done: func(int) {}})
		require.Host(t, err)
		return cells, err
	}
	for _, c := range []struct {
		call, after string
		again       bool
		want        []Note
	}{
		{"", "", false, nil},
		{"", "f();", true, nil},
		{"", "exit(n > 10);", false, []Note{{[]int{20, 80}, "the program ended abnormally: it ended with status 1"}}},
		{"", "abort();", false, []Note{{[]int{10, 20, 80}, "the program ended abnormally: it was killed by signal 6 (aborted)"}}},
		{"if (n == 20) longjmp(back, 1);", "", false, []Note{{[]int{20}, "1 call left by a jump to a caller, and counted until then"}}},
		{"if (n == 20) exit(0);", "", false, []Note{{[]int{20}, "the program ended in the call"}}},
	} {
		cell := require.Get(run(c.call, c.after))(t)[0]
		if diff := cmp.Diff(c.want, cell.Notes); diff != "" || cell.Again != c.again {
			t.Errorf("%q, %q: called again %v, %s", c.call, c.after, cell.Again, diff)
		}
	}
	_, err := run("if (n == 20) abort();", "")
	require.FailsAs[*launch.Error](t, err, "gcc -O1, size 20: ", "a call of f did not return: it was killed by signal 6")
}
