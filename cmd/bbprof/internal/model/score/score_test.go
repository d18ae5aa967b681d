package score

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	var (
		blocks      []Block
		predictions []Prediction
	)
	for _, r := range rows {
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
		Pearson:     Number(pearsonByHand()),
	}
	weighted := want // of 28, 20 of them predicted
	weighted.Coverage, weighted.MAPE, weighted.MAPEWeighted, weighted.MAPEFailures = 20./28, 0.5*5/20, 0.5*5/20, (0.5*5+8)/28
	weighted.MedianError, weighted.Excess, weighted.Within = 0, 0.5*5/20, Shares{15. / 20, 15. / 20, 15. / 20, 15. / 20}
	unweighted := slices.Clone(blocks)
	for i := range unweighted {
		unweighted[i].Weight = 0
	}
	for _, c := range []struct {
		blocks []Block
		want   Figures
	}{{unweighted, want}, {blocks, weighted}} {
		got := Of(c.blocks, predictions, upTo(10), Estimates, 1)
		if diff := cmp.Diff(c.want, got, cmpopts.AcyclicTransformer("float", func(n Number) float64 { return float64(n) }), cmpopts.EquateApprox(0, 1e-12), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("figures (-want +got):\n%s", diff)
		}
	}
}

// pearsonByHand is the textbook's formula over the eight pairs.
func pearsonByHand() float64 {
	x := []float64{1, 1, 2, 2, 4, 4, 5, 10}
	y := []float64{1, 1.01, 2.2, 1, 4.2, 5, 10, 10}
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
		sxx, syy, sxy = sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	return (8*sxy - sx*sy) / math.Sqrt((8*sxx-sx*sx)*(8*syy-sy*sy))
}

func TestNothingIsNull(t *testing.T) {
	f := Of(nil, nil, nil, All, 1)
	text, err := json.Marshal(f.MAPE)
	if err != nil || string(text) != "null" {
		t.Errorf("the MAPE of no block is %s, %v; want null", text, err)
	}
}

// A toy core: its limits are known, and so are a wrong model's mistakes.
type toy struct{ instructions, loads, multiplies int }

func (b toy) cycles(loadPorts, multiplyLatency float64) float64 {
	return max(float64(b.instructions)/6, float64(b.loads)/loadPorts, float64(b.multiplies)*multiplyLatency, 0.2)
}

func toys(n int) ([]toy, []Block, func(*Block) []Property) {
	random := rand.New(rand.NewPCG(7, 8))
	var (
		all    []toy
		blocks []Block
	)
	properties := map[string][]Property{}
	for i := range n {
		b := toy{instructions: 1 + random.IntN(12)}
		b.loads = random.IntN(b.instructions + 1)
		if random.IntN(5) == 0 {
			b.multiplies = 1
		}
		c := b.cycles(3, 3)
		hex := fmt.Sprint(i)
		all = append(all, b)
		blocks = append(blocks, Block{Hex: hex, Cycles: c, Low: c * 0.998, High: c * 1.002, Instructions: b.instructions})
		list := []Property{{Name: "add"}}
		if b.loads > 0 {
			list = append(list, Property{Name: "load"})
		}
		if b.loads*2 > b.instructions {
			list = append(list, Property{"load ports", true})
		}
		if b.multiplies > 0 {
			list = append(list, Property{Name: "imul"}, Property{Name: "imul r64, r64"})
		}
		if random.IntN(3) == 0 {
			list = append(list, Property{Name: "unrelated"})
		}
		properties[hex] = list
	}
	return all, blocks, func(b *Block) []Property { return properties[b.Hex] }
}

func TestWrongModelsAreRankedAndBlamed(t *testing.T) {
	all, blocks, properties := toys(3000)
	random := rand.New(rand.NewPCG(3, 4))
	noise := func(share float64) func(toy) float64 {
		return func(b toy) float64 { return b.cycles(3, 3) * (1 + share*random.NormFloat64()) }
	}
	for _, test := range []struct {
		name    string
		predict func(toy) float64
		blamed  string // the first mistake; "" if none may stand out
		slow    bool
	}{
		{"right", noise(0.0005), "", false},
		{"5 % noise", noise(0.05), "", false},
		{"one load port fewer", func(b toy) float64 { return b.cycles(2, 3) }, "load", true},
		{"multiply latency doubled", func(b toy) float64 { return b.cycles(3, 6) }, "imul", true},
		{"multiply latency halved", func(b toy) float64 { return b.cycles(3, 1.5) }, "imul", false},
	} {
		var predictions []Prediction
		for _, b := range all {
			predictions = append(predictions, Prediction{Cycles: test.predict(b)})
		}
		found := NewIndex(blocks, properties).Mistakes(predictions, 5, 3)
		switch {
		case test.blamed == "" && found[0].What != Others:
			t.Errorf("%s: blames %q, though errors are spread evenly", test.name, found[0].What)
		case test.blamed != "" && (found[0].What != test.blamed || (found[0].Direction == TooSlow) != test.slow):
			t.Errorf("%s: blames %q (too slow: %v), want %q (%v)", test.name, found[0].What, found[0].Direction == TooSlow, test.blamed, test.slow)
		}
	}

	var rights, wrongs []Prediction
	for i, b := range all {
		rights = append(rights, Prediction{Cycles: blocks[i].Cycles * 1.0001})
		wrongs = append(wrongs, Prediction{Cycles: b.cycles(2, 3)})
	}
	wrongs[0] = Failed("by order")
	right, wrong := Model{Name: "right", Predictions: rights}, Model{Name: "one load port fewer", Predictions: wrongs}
	pairs := Pairs(blocks, []Model{wrong, right})
	if len(pairs) != 1 || pairs[0].Blocks != len(blocks)-1 || pairs[0].Difference <= 0 || pairs[0].P > 1e-6 || pairs[0].BetterA > 0 || pairs[0].BetterB == 0 {
		t.Errorf("the pair is %+v", pairs)
	}
}

func TestMistakesAreWeighted(t *testing.T) {
	var (
		blocks      []Block
		predictions []Prediction
	)
	for i := range 3 * leastWrong {
		b := Block{Hex: []string{"a", "b", "c"}[i%3], Cycles: 1, Low: 1, High: 1, Weight: []float64{1, 9, 9}[i%3]}
		blocks = append(blocks, b)
		predictions = append(predictions, Prediction{Cycles: []float64{3, 2, 1}[i%3]})
	}
	found := NewIndex(blocks, func(b *Block) []Property { return []Property{{Name: b.Hex}} }).Mistakes(predictions, 1, 1)
	if len(found) == 0 || found[0].What != "b" || math.Abs(float64(found[0].Share)-9./11) > 1e-12 {
		t.Errorf("the most expensive mistake is %+v, want b with 9 of 11", found)
	}
}

// A single error shares nothing with other blocks, and is listed last, on its own.
func TestOtherMistakesAreListed(t *testing.T) {
	var (
		blocks      []Block
		predictions []Prediction
	)
	for i := range 20 {
		blocks = append(blocks, Block{Hex: fmt.Sprint(i), Cycles: 1, Low: 1, High: 1})
		predictions = append(predictions, Prediction{Cycles: 1})
	}
	predictions[3].Cycles, predictions[5].Cycles = 5, 9
	predictions[7] = Failed("no such instruction")
	found := NewIndex(blocks, func(b *Block) []Property { return []Property{{Name: b.Hex}} }).Mistakes(predictions, 5, 1)
	want := []Mistake{{What: Others, Direction: EitherWay, Blocks: 19, Wrong: 2, Share: 1, Ratio: 7, In: []int{3, 5}, Worst: []Offender{{Block: 5, Hex: "5", Cycles: 1, Low: 1, High: 1, Predicted: 9, Excess: 8, Share: 8. / 12}}}}
	require.Equal(t, "mistakes", want, found)
}

func TestGroupings(t *testing.T) {
	blocks := []Block{
		{Instructions: 1, Cycles: 0.4999}, {Instructions: 2, Cycles: 0.5}, {Instructions: 3, Cycles: 16},
		{Instructions: 20, Cycles: 1}, {Instructions: 21, Cycles: 1},
	}
	sizes := map[string]map[string]int{}
	for _, g := range Groupings() {
		sizes[g.Name] = map[string]int{}
		for _, group := range g.Split(blocks) {
			sizes[g.Name][group.Name] = len(group.Blocks)
		}
	}
	want := map[string]map[string]int{
		"category": {}, "bound": {}, "application": {},
		"length": {"1 instruction": 1, "2–3": 2, "11–20": 1, "21 and more": 1},
		"cycles": {"below 0.5": 1, "0.5–1": 1, "1–2": 2, "16 and more": 1},
	}
	require.Equal(t, "groups", want, sizes)
	var many []Block
	for i := range 100 {
		many = append(many, Block{Application: fmt.Sprint(i)}, Block{Application: "big"})
	}
	groups := Groupings()[4].Split(many)
	if len(groups) != maxGroups || groups[0].Name != "big" || groups[maxGroups-1].Name != others || len(groups[maxGroups-1].Blocks) != 100-maxGroups+2 {
		t.Errorf("%d groups, the last %q with %d blocks", len(groups), groups[len(groups)-1].Name, len(groups[len(groups)-1].Blocks))
	}
}

// A figure near 100 % has an interval whose far end would exceed 100 %; that of its errors would fall below 0.
func TestIntervalsAreOfWhatIsPossible(t *testing.T) {
	blocks, list := make([]Block, 40), make([]Prediction, 40)
	subset := make([]int, len(blocks))
	for i := range blocks {
		cycles := float64(i + 1)
		blocks[i], list[i], subset[i] = Block{Cycles: cycles, Low: cycles, High: cycles, Weight: 1}, Prediction{Cycles: cycles}, i
	}
	list[3], list[7].Cycles = Failed("cannot"), 20
	f := Of(blocks, list, subset, All, 1)
	for i, name := range Names() {
		least, most := possible(name)
		if in := f.Intervals[i]; in.Low < least || in.High > most {
			t.Errorf("%s: %v to %v, beyond %v to %v", name, in.Low, in.High, least, most)
		}
	}
	if none := Of(blocks[3:4], list[3:4], []int{0}, All, 1); Interval(none.Intervals[1]).Percent() != "–" {
		t.Errorf("without a prediction the interval is %s", Interval(none.Intervals[1]).Percent())
	}
}

// TestMeanOfFewBlocks: if two blocks are most of a mean error, it says so, and the interval does not begin at 0.
func TestMeanOfFewBlocks(t *testing.T) {
	var blocks []Block
	var predictions []Prediction
	subset := make([]int, 461)
	for i := range subset {
		subset[i] = i
		blocks = append(blocks, Block{Cycles: 1, Low: 1, High: 1})
		predictions = append(predictions, Prediction{Cycles: 1.5 + float64(i%8)/8})
	}
	predictions[100].Cycles, predictions[300].Cycles = 250, 300
	f := Of(blocks, predictions, subset, Errors, 1)
	in, _ := f.Intervals.Of("mape")
	if others := 0.9; in.Low < others || in.Low > float64(f.MAPE) || in.High < 1.5*float64(f.MAPE) {
		t.Errorf("MAPE %.2f (%.2f to %.2f)", float64(f.MAPE), in.Low, in.High)
	}
	if got, want := f.Half.String(), "2 blocks are 56.1 % of this mean"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	predictions[100].Cycles, predictions[300].Cycles = 2, 2
	if f := Of(blocks, predictions, subset, Errors, 1); f.Half != nil {
		t.Errorf("%v, where no block stands out", f.Half)
	}
}

// TestOneWeighting: weights apply to all figures, tests and lists.
func TestOneWeighting(t *testing.T) {
	blocks := []Block{{Hex: "a", Cycles: 1, Low: 1, High: 1, Weight: 8}, {Hex: "b", Cycles: 1, Low: 1, High: 1, Weight: 1}, {Hex: "c", Cycles: 1, Low: 1, High: 1, Weight: 1}}
	one := Model{Name: "one", Kind: Candidate, Predictions: []Prediction{{Cycles: 1.02}, {Cycles: 2}, Failed("none")}}
	two := Model{Name: "two", Kind: Candidate, Predictions: []Prediction{{Cycles: 1.5}, {Cycles: 1}, {Cycles: 1}}}
	for _, test := range []struct {
		name                       string
		weights                    bool
		coverage, mape, median, in float64
		difference                 float64 // between the two models, on a and b
		worst                      string
	}{
		{"weighted", true, 0.9, (8*0.02 + 1) / 9, 0.02, 8. / 9, (8*0.02+1)/9 - 8*0.5/9, "b"},
		{"each once", false, 2. / 3, 0.51, 0.51, 0.5, 0.51 - 0.25, "b"},
	} {
		list := slices.Clone(blocks)
		if !test.weights {
			for i := range list {
				list[i].Weight = 0
			}
		}
		r := Report{Weight: Unweighted}
		r.Judge(list, []Model{one, two}, 1, 2)
		f := r.Models[0].Figures
		for what, v := range map[string][2]float64{"coverage": {float64(f.Coverage), test.coverage}, "MAPE": {float64(f.MAPE), test.mape}, "median": {float64(f.MedianError), test.median},
			"within 5 %": {float64(f.Within[1]), test.in}, "difference": {float64(r.Pairs[0].Difference), test.difference}} {
			if math.Abs(v[0]-v[1]) > 1e-12 {
				t.Errorf("%s: %s is %v, want %v", test.name, what, v[0], v[1])
			}
		}
		if w := r.Models[0].Worst; len(w) != 2 || w[0].Hex != test.worst {
			t.Errorf("%s: worst are %+v", test.name, w)
		}
	}
}

// TestMistakeIsNamedAfterWhatSeparates: pop is wrong in all of its blocks; add accompanies it, also in right blocks.
func TestMistakeIsNamedAfterWhatSeparates(t *testing.T) {
	var blocks []Block
	var predictions []Prediction
	properties := map[string][]Property{}
	add := func(n int, predicted float64, list ...string) {
		for range n {
			hex := fmt.Sprint(len(blocks))
			blocks = append(blocks, Block{Hex: hex, Cycles: 1, Low: 1, High: 1})
			predictions = append(predictions, Prediction{Cycles: predicted})
			for _, name := range list {
				properties[hex] = append(properties[hex], Property{Name: name})
			}
		}
	}
	add(21, 2, "pop", "add")
	add(2, 2, "pop")
	add(12, 1, "add")
	add(4, 3, "add") // another mistake
	add(60, 1, "mov")
	mistakes := func() []Mistake {
		return NewIndex(blocks, func(b *Block) []Property { return properties[b.Hex] }).Mistakes(predictions, 3, 1)
	}
	found := mistakes()
	if found[0].What != "pop" || found[0].Wrong != 23 || found[0].Blocks != 23 {
		t.Errorf("%s: %d of %d, want pop: 23 of 23", found[0].What, found[0].Wrong, found[0].Blocks)
	}
	// mov is in half of all wrong blocks and in most right ones; it must not take in two mistakes at once.
	blocks, predictions = nil, nil
	clear(properties)
	add(60, 2, "mov", "store")
	add(4, 1, "mov", "store")
	add(60, 2, "mov", "nop")
	add(4, 1, "mov", "nop")
	add(120, 1, "mov")
	add(140, 1, "add")
	if found = mistakes(); found[0].What == "mov" {
		t.Errorf("%d of %d blocks with mov are wrong, and it is named instead of what is", found[0].Wrong, found[0].Blocks)
	}
}
