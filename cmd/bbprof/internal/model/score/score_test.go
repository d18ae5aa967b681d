package score

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Ten rows; their figures were computed by hand.
func TestFiguresByHand(t *testing.T) {
	rows := []struct{ cycles, low, high, weight, predicted float64 }{
		{1, 1, 1, 10, 1},            // exact
		{1, 0.99, 1.01, 0, 1.01},    // 1 %, within the interval
		{2, 1.9, 2.1, 0, 2.2},       // 10 %, 5 % outside
		{2, 2, 2, 5, 1},             // 50 %, all of it outside
		{4, 4, 4, 0, 4.2},           // 5 %
		{4, 4, 4, 0, 5},             // 25 %
		{5, 4, 6, 0, 10},            // 100 %, 80 % outside
		{10, 10, 10, 5, 10},         // exact
		{10, 10, 10, 7, math.NaN()}, // failed
		{8, 8, 8, 1, 0},             // no block takes 0 cycles: failed
	}
	var blocks, unweighted []Block
	var predictions []Prediction
	for _, r := range rows {
		unweighted = append(unweighted, Block{Cycles: r.cycles, Low: r.low, High: r.high})
		blocks = append(blocks, Block{Cycles: r.cycles, Low: r.low, High: r.high, Weight: r.weight})
		predictions = append(predictions, Prediction{Cycles: r.predicted})
	}
	want := Figures{
		Blocks: 10, Predicted: 8,
		Coverage:     0.8,
		MAPE:         (0 + 0.01 + 0.1 + 0.5 + 0.05 + 0.25 + 1 + 0) / 8,
		MAPEWeighted: Number(math.NaN()),
		MAPEFailures: (1.91 + 2) / 10,
		MedianError:  (0.05 + 0.1) / 2,
		Excess:       (0 + 0 + 0.05 + 0.5 + 0.05 + 0.25 + 0.8 + 0) / 8,
		Within:       [...]Number{3. / 8, 4. / 8, 5. / 8, 6. / 8},
		// Of 28 pairs, measured cycles tie (0,1), (2,3) and (4,5), predictions (0,3) and (6,7). Of the
		// 23 others (1,3) alone is in another order.
		TauB: Number((22. - 1) / math.Sqrt(25*26)),
		// 1.01 becomes 1.00: (0,1) ties on both sides, and (1,3) in the predictions.
		TauBRounded: Number(22 / math.Sqrt(25*24)),
		Pearson:     Number(563.79 / math.Sqrt(495.0*819.9527)), // (n Σxy − Σx Σy) / √((n Σx² − (Σx)²) (n Σy² − (Σy)²)), n = 8
	}
	weighted := want // of 28, 20 of them predicted
	weighted.Coverage, weighted.MAPE, weighted.MAPEWeighted, weighted.MAPEFailures = 20./28, 0.5*5/20, 0.5*5/20, (0.5*5+8)/28
	weighted.MedianError, weighted.Excess, weighted.Within = 0, 0.5*5/20, Shares{15. / 20, 15. / 20, 15. / 20, 15. / 20}
	for _, c := range []struct {
		blocks []Block
		want   Figures
	}{{unweighted, want}, {blocks, weighted}} {
		require.Equal(t, "figures", c.want, Of(c.blocks, predictions, upTo(10), true, 1),
			cmpopts.AcyclicTransformer("float", func(n Number) float64 { return float64(n) }),
			cmpopts.EquateApprox(0, 1e-12), cmpopts.EquateNaNs(), cmpopts.IgnoreFields(Figures{}, "Intervals"))
	}
}

// A toy is a block on a core whose limits are known, and so are a wrong model's mistakes.
type toy struct{ instructions, loads, multiplies int }

func (b toy) cycles(loadPorts, multiplyLatency float64) float64 {
	return max(float64(b.instructions)/6, float64(b.loads)/loadPorts, float64(b.multiplies)*multiplyLatency, 0.2)
}

func toys(n int) (all []toy, c corpus) {
	random := rand.New(rand.NewPCG(7, 8))
	for range n {
		b := toy{instructions: 1 + random.IntN(12)}
		b.loads = random.IntN(b.instructions + 1)
		list := []string{"add"}
		if b.loads > 0 {
			list = append(list, "load")
		}
		if random.IntN(5) == 0 {
			b.multiplies = 1
			list = append(list, "imul", "imul r64, r64")
		}
		if random.IntN(3) == 0 {
			list = append(list, "unrelated")
		}
		all = append(all, b)
		c.add(1, b.cycles(3, 3), 0, 0, list...)
		last := &c.blocks[len(c.blocks)-1]
		last.Low, last.High = last.Cycles*0.998, last.Cycles*1.002
		if b.loads*2 > b.instructions {
			c.properties[last.Hex] = append(c.properties[last.Hex], Property{"load ports", true})
		}
	}
	return all, c
}

func TestWrongModelsAreRankedAndBlamed(t *testing.T) {
	all, c := toys(3000)
	random := rand.New(rand.NewPCG(3, 4))
	for _, test := range []struct {
		name    string
		predict func(toy) float64
		blamed  string // the first mistake; Others if none may stand out
		slow    Direction
	}{
		{"right", func(b toy) float64 { return b.cycles(3, 3) * (1 + 0.0005*random.NormFloat64()) }, Others, EitherWay},
		{"5 % noise", func(b toy) float64 { return b.cycles(3, 3) * (1 + 0.05*random.NormFloat64()) }, Others, EitherWay},
		{"one load port fewer", func(b toy) float64 { return b.cycles(2, 3) }, "load", TooSlow},
		{"multiply latency doubled", func(b toy) float64 { return b.cycles(3, 6) }, "imul", TooSlow},
		{"multiply latency halved", func(b toy) float64 { return b.cycles(3, 1.5) }, "imul", TooFast},
	} {
		for i, b := range all {
			c.predictions[i].Cycles = test.predict(b)
		}
		if found := c.mistakes(); found[0].What != test.blamed || found[0].Direction != test.slow {
			t.Errorf("%s: blames %q (%s), want %q (%s)", test.name, found[0].What, found[0].Direction, test.blamed, test.slow)
		}
	}
	var rights, wrongs []Prediction
	for i, b := range all {
		rights = append(rights, Prediction{Cycles: c.blocks[i].Cycles * 1.0001})
		wrongs = append(wrongs, Prediction{Cycles: b.cycles(2, 3)})
	}
	wrongs[0] = Failed("by order")
	pairs := pairs(c.blocks, []Model{{Name: "one load port fewer", Predictions: wrongs}, {Name: "right", Predictions: rights}})
	if p := pairs[0]; p.Blocks != len(all)-1 || p.Difference <= 0 || p.P > 1e-6 || p.BetterA > 0 || p.BetterB == 0 {
		t.Errorf("the pair is %+v", p)
	}
}

// corpus is blocks with predictions and properties.
type corpus struct {
	blocks      []Block
	predictions []Prediction
	properties  map[string][]Property
}

// add adds n equal blocks; a prediction of 0 is missing.
func (c *corpus) add(n int, measured, predicted, weight float64, properties ...string) {
	for range n {
		hex := fmt.Sprint(len(c.blocks))
		c.blocks = append(c.blocks, Block{Hex: hex, Cycles: measured, Low: measured, High: measured, Weight: weight})
		c.predictions = append(c.predictions, Prediction{Cycles: predicted})
		for _, name := range properties {
			if c.properties == nil {
				c.properties = map[string][]Property{}
			}
			c.properties[hex] = append(c.properties[hex], Property{Name: name})
		}
	}
}

func (c *corpus) mistakes() []Mistake {
	found, _ := newIndex(c.blocks, func(b *Block) []Property { return c.properties[b.Hex] }).Mistakes(c.predictions, 5, 1, 0)
	return found
}

func (c *corpus) figures(correlated bool) Figures {
	return Of(c.blocks, c.predictions, upTo(len(c.blocks)), correlated, 1)
}

func TestMistakesAreWeighted(t *testing.T) {
	var c corpus
	c.add(leastWrong, 1, 3, 1, "a")
	c.add(leastWrong, 1, 2, 9, "b")
	c.add(leastWrong, 1, 1, 9, "c")
	if found := c.mistakes(); found[0].What != "b" || math.Abs(float64(found[0].Share)-9./11) > 1e-12 {
		t.Errorf("the most expensive mistake is %+v, want b with 9 of 11", found)
	}
}

// A single error shares nothing with other blocks, and is listed last, on its own.
func TestOtherMistakesAreListed(t *testing.T) {
	var c corpus
	for i := range 20 {
		c.add(1, 1, cmp.Or(map[int]float64{3: 5, 5: 9, 7: math.Inf(1)}[i], 1), 0, fmt.Sprint(i))
	}
	require.Equal(t, "mistakes", []Mistake{{What: Others, Direction: EitherWay, Blocks: 19, Wrong: 2, Share: 1, Ratio: 7, In: []int{3, 5},
		Worst: []Offender{{Block: 5, Hex: "5", Cycles: 1, Low: 1, High: 1, Predicted: 9, Excess: 8, Share: 8. / 12}}}}, c.mistakes())
}

func TestGroupings(t *testing.T) {
	blocks := []Block{
		{Instructions: 1, Cycles: 0.4999}, {Instructions: 2, Cycles: 0.5}, {Instructions: 3, Cycles: 16},
		{Instructions: 20, Cycles: 1}, {Instructions: 21, Cycles: 1},
	}
	sizes := map[string]map[string]int{}
	for _, g := range groupings(blocks) {
		sizes[g.Name] = map[string]int{}
		for _, group := range g.Groups {
			sizes[g.Name][group.Name] = len(group.Blocks)
		}
	}
	require.Equal(t, "groups", map[string]map[string]int{
		"category": {}, "bound": {}, "application": {},
		"length": {"1 instruction": 1, "2–3": 2, "11–20": 1, "21 and more": 1},
		"cycles": {"below 0.5": 1, "0.5–1": 1, "1–2": 2, "16 and more": 1},
	}, sizes)
	var many []Block
	for i := range 100 {
		many = append(many, Block{Application: fmt.Sprint(i)}, Block{Application: "big"})
	}
	groups := groupings(many)[4].Groups
	if len(groups) != maxGroups || groups[0].Name != "big" || groups[maxGroups-1].Name != others || len(groups[maxGroups-1].Blocks) != 100-maxGroups+2 {
		t.Errorf("%d groups, the last %q with %d blocks", len(groups), groups[len(groups)-1].Name, len(groups[len(groups)-1].Blocks))
	}
}

// A figure near 100 % has an interval whose far end would exceed 100 %; that of its errors would fall below 0.
func TestIntervalsAreOfWhatIsPossible(t *testing.T) {
	var c corpus
	c.add(38, 1, 1, 1)
	c.add(1, 8, 20, 1)
	c.add(1, 4, 0, 1)
	f := c.figures(true)
	for _, g := range figures {
		if in := f.Intervals[g.name]; in.Low < g.least || in.High > g.most {
			t.Errorf("%s: %v to %v, beyond %v to %v", g.name, in.Low, in.High, g.least, g.most)
		}
	}
	f = Of(c.blocks, c.predictions, []int{39}, true, 1)
	if none := f.Cells()[1]; none.Text != "–" || none.Interval != "" {
		t.Errorf("without a prediction: %+v", none)
	}
}

// TestMeanOfFewBlocks: if two blocks are most of a mean error, it says so, and the interval does not begin at 0.
func TestMeanOfFewBlocks(t *testing.T) {
	var c corpus
	for i := range 459 {
		c.add(1, 1, 1.5+float64(i%8)/8, 0)
	}
	plain := c
	c.add(1, 1, 250, 0)
	c.add(1, 1, 300, 0)
	f := c.figures(false)
	if in := f.Intervals["mape"]; in.Low < 0.9 || in.Low > float64(f.MAPE) || in.High < 1.5*float64(f.MAPE) {
		t.Errorf("MAPE %.2f (%.2f to %.2f)", float64(f.MAPE), in.Low, in.High)
	}
	require.Equal(t, "half", "2 blocks are 56.1 % of this mean", f.Half.String())
	if f := plain.figures(false); f.Half != nil {
		t.Errorf("%v, where no block stands out", f.Half)
	}
	var exact corpus
	for range 50 { // of fewer, one is not few
		exact.add(1, 1, 1, 0)
	}
	if f := exact.figures(false); f.Half != nil {
		t.Errorf("%v, where the mean is 0", f.Half)
	}
}

func TestPairsAreWeighted(t *testing.T) {
	one := Model{Predictions: []Prediction{{Cycles: 1.02}, {Cycles: 2}, Failed("none")}}
	two := Model{Predictions: []Prediction{{Cycles: 1.5}, {Cycles: 1}, {Cycles: 1}}}
	for weight, want := range map[float64]float64{8: (8*0.02+1)/9 - 8*0.5/9, 0: 0.51 - 0.25} { // of the first block
		var c corpus
		c.add(1, 1, 0, weight)
		c.add(2, 1, 0, min(1, weight))
		got := float64(pairs(c.blocks, []Model{one, two})[0].Difference)
		require.Equal(t, fmt.Sprint("a difference at weight ", weight), want, got, cmpopts.EquateApprox(0, 1e-12))
	}
}

// TestMistakeIsNamedAfterWhatSeparates: pop is wrong in all of its blocks; add accompanies it, also in right blocks.
func TestMistakeIsNamedAfterWhatSeparates(t *testing.T) {
	var c corpus
	c.add(21, 1, 2, 0, "pop", "add")
	c.add(2, 1, 2, 0, "pop")
	c.add(12, 1, 1, 0, "add")
	c.add(4, 1, 3, 0, "add") // another mistake
	c.add(60, 1, 1, 0, "mov")
	if found := c.mistakes(); found[0].What != "pop" || found[0].Wrong != 23 || found[0].Blocks != 23 {
		t.Errorf("%s: %d of %d, want pop: 23 of 23", found[0].What, found[0].Wrong, found[0].Blocks)
	}
	// mov is in half of all wrong blocks and in most right ones; it must not take in two mistakes at once.
	c = corpus{}
	for _, other := range []string{"store", "nop"} {
		c.add(60, 1, 2, 0, "mov", other)
		c.add(4, 1, 1, 0, "mov", other)
	}
	c.add(120, 1, 1, 0, "mov")
	c.add(140, 1, 1, 0, "add")
	if found := c.mistakes(); found[0].What == "mov" {
		t.Errorf("%d of %d blocks with mov are wrong, and it is named instead of what is", found[0].Wrong, found[0].Blocks)
	}
}

// TestHugePredictions: what no block can take is no prediction, and the largest that one can take has figures.
func TestHugePredictions(t *testing.T) {
	blocks := []Block{{Cycles: 1}, {Cycles: 2}, {Cycles: 3}, {Cycles: 4}, {Cycles: 5}}
	for huge, predicted := range map[float64]int{1e12: 5, 1e155: 4, 1e308: 4} {
		var predictions []Prediction
		for _, cycles := range []float64{1, 2, 3.1, 4, huge} {
			predictions = append(predictions, Prediction{Cycles: cycles})
		}
		f := Of(blocks, predictions, []int{0, 1, 2, 3, 4}, true, 1)
		require.Equal(t, fmt.Sprint(huge, ": predicted"), predicted, f.Predicted)
		if in := f.Intervals["mape"]; !(in.Low <= float64(f.MAPE) && float64(f.MAPE) <= in.High) {
			t.Errorf("%g: MAPE %v in %v", huge, f.MAPE, in)
		}
	}
}
