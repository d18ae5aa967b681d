package selftest

import (
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
)

func blocks(t *testing.T) []Block {
	t.Helper()
	return require.Get(Blocks())(t)
}

// TestTable: every block decodes to its text, and a guess is no wider than a factor of 1.5. The short selftest is four blocks
// that every CPU has, of both kinds.
func TestTable(t *testing.T) {
	cores := append(withAnswers(), cpu.Unknown)
	count, short := map[Kind]int{}, map[Kind]int{}
	seen := map[string]bool{}
	for _, b := range blocks(t) {
		count[b.Kind]++
		if b.Short {
			short[b.Kind]++
			if len(b.Needs) > 0 || b.Note != "" {
				t.Errorf("%s is not for every CPU", b.Text)
			}
		}
		if seen[string(b.Code)] || seen[b.Text] {
			t.Errorf("%s: twice in the table", b.Text)
		}
		seen[string(b.Code)], seen[b.Text] = true, true

		insts, err := asm.Decode(b.Code)
		if err != nil {
			t.Errorf("%s: %v", b.Text, err)
			continue
		}
		if r := asm.Refuse(insts); r != nil {
			t.Errorf("%s: %v", b.Text, r)
		}
		var texts []string
		for i := range insts {
			texts = append(texts, insts[i].Text())
		}
		if text := strings.Join(texts, "; "); b.Kind == Latency && text != b.Text {
			t.Errorf("%s: its bytes are %s", b.Text, text)
		}
		for _, name := range b.Needs {
			if cpuid.ParseFeature(name) == cpuid.UNKNOWN {
				t.Errorf("%s: no CPU feature is called %s", b.Text, name)
			}
		}
		for core, a := range b.Answers {
			switch {
			case !slices.Contains(cores, core):
				t.Errorf("%s: no core is called %s", b.Text, core)
			case a.Low <= 0 || a.High < a.Low || a.High > 1.5*a.Low:
				t.Errorf("%s on %s: %v is no answer", b.Text, core, a)
			case core != cpu.Unknown && b.Answers[cpu.Unknown] != Answer{}:
				if u := b.Answers[cpu.Unknown]; a.Low < u.Low || a.High > u.High {
					t.Errorf("%s on %s: %v is not within %v, which any core is to pass", b.Text, core, a, u)
				}
			}
		}
	}
	if count[Latency] < 20 || count[Throughput] < 4 || len(count) != 2 || short[Latency] != 3 || short[Throughput] != 1 {
		t.Errorf("kinds: %v, of the short selftest %v", count, short)
	}
}

// withAnswers are the cores that have a column of the table.
func withAnswers() (names []cpu.Name) {
	for _, n := range cpu.Names() {
		if AnswersOf(n) == n {
			names = append(names, n)
		}
	}
	return names
}

// TestAnswersOf: a core without a column has that of the core that it is like, and else the one for any core. Those that have neither
// are named here, so that none is forgotten.
func TestAnswersOf(t *testing.T) {
	without := map[cpu.Name]bool{cpu.Tremont: true, cpu.Darkmont: true, cpu.Unknown: true, "no such core": true}
	for n := range without {
		if got := AnswersOf(n); got != cpu.Unknown {
			t.Errorf("%s has the answers of %s", n, got)
		}
	}
	for _, n := range cpu.Names() {
		switch got, like := AnswersOf(n), cpu.Of(n).Like; {
		case without[n]:
		case got != n && (got != like || like == ""):
			t.Errorf("%s has the answers of %s: give it a column of answers.txt, or name it in this test", n, got)
		}
	}
	if got := AnswersOf(cpu.Zen5c); got != cpu.Zen5 {
		t.Errorf("Zen 5c has those of %s", got)
	}
}

// FuzzParseTable: a table is read or refused with the place.
func FuzzParseTable(f *testing.F) {
	f.Add("# text | hex | needs | short | Zen | unknown | note\nlatency\nnop|90|AVX FMA3|short|-|1..2.5|why\n")
	f.Add("# text\n")
	for _, row := range []string{"nop|90||", "nop|90|||1|1|note|more", "nop|9|||1|1", "nop|90|||x|1", "nop|90|||1..x|1", "nop|90||||1"} {
		f.Add("# text | hex | needs | short | Zen | unknown | note\n" + row + "\n")
	}
	f.Add("# text | hex | needs | short\nnop|90||\n")
	f.Fuzz(func(t *testing.T, table string) {
		blocks, err := parseTable(table)
		if err != nil && (len(blocks) > 0 || !strings.Contains(err.Error(), "line ")) {
			t.Errorf("%d blocks, %v", len(blocks), err)
		}
	})
}

// TestHolds stands on both sides of each limit: 0.02 cycles, or 1.5 % if that is wider.
func TestHolds(t *testing.T) {
	for a, limits := range map[Answer][2]float64{{1, 1}: {0.98, 1.02}, {4, 4}: {3.94, 4.06}, {1, 4}: {0.98, 4.06}} {
		for i, inwards := range []float64{0.0001, -0.0001} {
			if !a.holds(limits[i]+inwards) || a.holds(limits[i]-inwards) {
				t.Errorf("%v does not end at %v", a, limits[i])
			}
		}
	}
}
