package hunt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/require"
)

// core is a made-up core: it renames four instructions a cycle; each then waits for its operands and for slots of one
// kind of port. A mistaken model of it makes five mistakes.
type core struct{ mistaken bool }

func (c core) latency(shape string) int {
	switch {
	case c.mistaken && shape == "imul r64, r64":
		return 6
	case c.mistaken && shape == "popcnt r64, r64, same":
		return 0
	case strings.HasPrefix(shape, "imul"):
		return 3
	case strings.Contains(shape, "m64"):
		return 5
	}
	return 1
}

// slots returns how many of two slots a cycle an instruction takes.
func (c core) slots(shape string) int {
	if c.mistaken && shape == "xor r32, r32, same" {
		return 4
	}
	return 1
}

// feeds returns the extra cycles between two instructions: through memory, and through flags.
func (c core) feeds(from, to string) int {
	switch {
	case c.mistaken && from == "mov m64, r64" && to == "mov r64, m64":
		return 20
	case c.mistaken && from == "add r64, r64" && to == "adc r64, r64":
		return 7
	}
	return 0
}

// cycles simulates iterations and returns the cycles of one more.
func (c core) cycles(b *block) float64 {
	const short, long = 64, 128
	run := func(iterations int) float64 {
		ready := make([]int, len(b.insts)) // cycle of its last result
		end, issued, taken := 0, 0, 0
		for range iterations {
			for i, shape := range b.shapes {
				at := max(issued/4, taken/2)
				issued++
				taken += c.slots(shape)
				for from := range b.insts {
					if b.edges[from][i] != 0 {
						at = max(at, ready[from]+c.feeds(b.shapes[from], shape))
					}
				}
				ready[i] = at + c.latency(shape)
				end = max(end, ready[i])
			}
		}
		return float64(end)
	}
	return (run(long) - run(short)) / (long - short)
}

// world measures one core and predicts by another.
type world struct{ core, model core }

func (w *world) Measure(ctx context.Context, blocks []Case, _ How) (list []Measurement, err error) {
	for _, c := range blocks {
		c := w.core.cycles(newBlock(c.Hex))
		list = append(list, Measurement{Cycles: c, Low: 0.99 * c, High: 1.01 * c})
	}
	return list, ctx.Err()
}

func (w *world) Predict(ctx context.Context, blocks []string) (list []score.Prediction, err error) {
	for _, text := range blocks {
		list = append(list, score.Prediction{Cycles: w.model.cycles(newBlock(text))})
	}
	return list, nil
}

// instructions of the made-up corpus.
var vocabulary = []string{
	"480fafc3", "480fafda", "480fafc8", // imul
	"f3480fb8c1", "f3480fb8db", // popcnt
	"31c0", "31d2", // xor
	"4801d8", "4801cb", "4829c1", "4821d0", // add, sub, and
	"4811d8", "4811ca", // adc
	"488906", "48894f08", // mov [rsi], rax; mov [rdi+8], rcx
	"488b06", "488b5708", "488b1e", // mov rax, [rsi]; mov rdx, [rdi+8]; mov rbx, [rsi]
	"4889d8", "4889ca", // mov
	"48ffc2", "48c1e003", "488d4301",
}

func madeUp(n int) (corpus []string) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range n {
		text := ""
		for range 1 + rng.IntN(9) {
			text += vocabulary[rng.IntN(len(vocabulary))]
		}
		if !slices.Contains(corpus, text) {
			corpus = append(corpus, text)
		}
	}
	return corpus
}

// TestFivePlanted: hunt finds five planted mistakes, each in its smallest block, and nothing else.
func TestFivePlanted(t *testing.T) {
	w := &world{model: core{mistaken: true}}
	found := require.Get(Hunt(t.Context(), w, w, madeUp(400), Options{Threshold: 0.2, Seed: 1, Usable: NewForms(forms.Select(nil, false))}))(t)
	var got []string
	for _, c := range found.Classes {
		got = append(got, fmt.Sprintf("%s: %s", strings.Join(slices.Sorted(slices.Values(c.Holds())), "; "), c.Sign))
	}
	slices.Sort(got)
	want := []string{
		"adc r64, r64; add r64, r64: too slow",
		"imul r64, r64: too slow",
		"mov m64, r64; mov r64, m64: too slow",
		"popcnt r64, r64, same: too fast",
		"xor r32, r32, same: too slow",
	}
	require.Equal(t, "classes", want, got)
	if found.Explained < 0.999 {
		t.Errorf("the classes explain %.3f of the error, want all", float64(found.Explained))
	}
}

// TestRightModel: a correct model has no class.
func TestRightModel(t *testing.T) {
	w := &world{}
	found, err := Hunt(t.Context(), w, w, madeUp(200), Options{Threshold: 0.2, Seed: 1, Generate: 50, Usable: NewForms(forms.Select(nil, false))})
	if err != nil || len(found.Classes) > 0 || found.Wrong > 0 {
		t.Errorf("%d wrong, %d classes, %v", found.Wrong, len(found.Classes), err)
	}
}

// TestUseOfLongBlock: counting mnemonics skips dependencies, which would take 20,000³ steps here.
func TestUseOfLongBlock(t *testing.T) {
	var u use
	u.count([]string{strings.Repeat("4801d8", 20_000), "31c0", "no block", "48"})
	require.Equal(t, "uses", use{"add": 20_000, "xor": 1}, u)
}
