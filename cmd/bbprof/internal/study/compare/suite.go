package compare

import (
	"fmt"
	"math"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/internal/stat"
)

// Suite is the joint result of several programs. A speed-up is a's time over b's: above 1, b is faster.
type Suite struct {
	// Speedups holds each layout's geometric mean over the programs; Layouts names the layouts.
	Speedups []float64 `json:"speedups"`
	Layouts  []Layout  `json:"layouts"`
	Best     int       `json:"best"` // index of the layout most favourable to b
	Worst    int       `json:"worst"`
	Straddle int       `json:"straddle"`     // programs that b makes faster in some layouts and slower in others
	Mean     float64   `json:"mean_speedup"` // geometric mean of all
	// Low and High are the 95 % interval of the mean over programs, as a sample of their kind.
	Low  float64 `json:"ci_low,omitzero"`
	High float64 `json:"ci_high,omitzero"`
}

// OfSuite takes each program's pairs. All programs have the same layouts in the same order; layouts that an interrupted
// program lacks count for none.
func OfSuite(programs [][]Pair) (s Suite) {
	least := len(programs[0])
	for _, pairs := range programs {
		least = min(least, len(pairs))
	}
	if least == 0 {
		return s
	}
	var ofPrograms []float64 // logarithms
	logs := make([]float64, least)
	for _, pairs := range programs {
		var sum float64
		lowest, highest := 0.0, 0.0
		for i, p := range pairs[:least] {
			log := math.Log(Value(p.A) / Value(p.B))
			lowest, highest = min(lowest, log), max(highest, log)
			logs[i] += log / float64(len(programs))
			sum += log / float64(least)
		}
		ofPrograms = append(ofPrograms, sum)
		if lowest < 0 && highest > 0 {
			s.Straddle++
		}
	}
	for i, log := range logs {
		s.Speedups, s.Layouts = append(s.Speedups, math.Exp(log)), append(s.Layouts, programs[0][i].Layout)
		if log > logs[s.Best] {
			s.Best = i
		}
		if log < logs[s.Worst] {
			s.Worst = i
		}
	}
	t := stat.OneSample(ofPrograms)
	s.Mean = math.Exp(t.Mean)
	if len(programs) > 1 {
		s.Low, s.High = math.Exp(t.Low), math.Exp(t.High)
	}
	return s
}

func (s Suite) Figure(names []string, programs [][]Pair) plot.Figure {
	const boxWidth = 0.5 // in units of the distance between programs
	boxes := plot.Series{Kind: plot.Boxes, Width: boxWidth}
	var numbers, keys []string // program names are too long for an axis
	for i, name := range names {
		numbers, keys = append(numbers, strconv.Itoa(i+1)), append(keys, fmt.Sprintf("%d %s", i+1, name))
	}
	given, alphabetical := plot.Series{Name: "objects as given", Kind: plot.Dots}, plot.Series{Name: "alphabetical", Kind: plot.Dots}
	for i, pairs := range programs {
		var speedups []float64
		for _, p := range pairs {
			speedup := Value(p.A) / Value(p.B)
			speedups = append(speedups, speedup)
			switch p.Layout.Order {
			case "given":
				given.X, given.Y = append(given.X, float64(i)), append(given.Y, speedup)
			case "alphabetical":
				alphabetical.X, alphabetical.Y = append(alphabetical.X, float64(i)), append(alphabetical.Y, speedup)
			}
		}
		boxes.X, boxes.Values = append(boxes.X, float64(i)), append(boxes.Values, speedups)
	}
	ofEach := []plot.Series{boxes}
	for _, marks := range []plot.Series{given, alphabetical} {
		if len(marks.X) > 0 {
			ofEach = append(ofEach, marks)
		}
	}
	bars, top := histogram(s.Speedups)
	mean := plot.Series{Name: "mean", Kind: plot.Dots, X: []float64{s.Mean}, Y: []float64{1.1 * top}}
	return plot.Figure{Beside: true, Keys: keys, Panels: []plot.Panel{
		{Title: "each program, in all layouts", Y: "speed-up of b", Names: numbers, Series: ofEach},
		{Title: "the suite", X: "mean speed-up of b", Y: "layouts", Series: []plot.Series{bars, mean,
			{Name: "no difference", Kind: plot.Rule, X: []float64{1}}}},
	}}
}
