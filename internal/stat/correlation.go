package stat

import (
	"math"
	"slices"
)

// Kendall is Kendall's tau-b: the share of pairs of pairs that are in the same order in xs and ys minus the share
// of those that are not, corrected for ties (Kendall, Biometrika 33, 1945). It counts the exchanges of a merge
// sort in n log n (Knight, JASA 61, 1966). NaN if all values of a side are equal, or any is NaN. xs and ys must
// have equal length.
func Kendall(xs, ys []float64) float64 {
	type pair struct{ x, y float64 }
	pairs := make([]pair, len(xs))
	for i := range xs {
		if math.IsNaN(xs[i]) || math.IsNaN(ys[i]) {
			return math.NaN()
		}
		pairs[i] = pair{xs[i], ys[i]}
	}
	slices.SortFunc(pairs, func(a, b pair) int { // without NaN, which cmp.Compare would check
		switch {
		case a.x < b.x || a.x == b.x && a.y < b.y:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	tiedX := tied(pairs, func(a, b pair) bool { return a.x == b.x })
	tiedBoth := tied(pairs, func(a, b pair) bool { return a == b })
	sorted := make([]float64, len(pairs))
	for i, p := range pairs {
		sorted[i] = p.y
	}
	discordant := sortCounting(sorted, make([]float64, len(sorted)))
	tiedY := tied(sorted, func(a, b float64) bool { return a == b })

	n := int64(len(xs))
	all := n * (n - 1) / 2
	concordantLess := all - tiedX - tiedY + tiedBoth - 2*discordant
	return float64(concordantLess) / math.Sqrt(float64(all-tiedX)) / math.Sqrt(float64(all-tiedY))
}

func tied[T any](sorted []T, equal func(a, b T) bool) (pairs int64) {
	run := int64(1)
	for i := 1; i < len(sorted); i++ {
		if !equal(sorted[i-1], sorted[i]) {
			run = 0
		}
		pairs += run
		run++
	}
	return pairs
}

// sortCounting sorts xs and counts the pairs that were in descending order. spare must be as long as xs.
func sortCounting(xs, spare []float64) (descending int64) {
	if len(xs) < 2 {
		return 0
	}
	half := len(xs) / 2
	descending = sortCounting(xs[:half], spare) + sortCounting(xs[half:], spare)
	left := spare[:copy(spare, xs[:half])]
	right := xs[half:]
	for out := 0; len(left) > 0; out++ {
		if len(right) > 0 && right[0] < left[0] {
			descending += int64(len(left))
			xs[out], right = right[0], right[1:]
		} else {
			xs[out], left = left[0], left[1:]
		}
	}
	return descending
}

// Pearson is the correlation coefficient. NaN if all values of a side are equal. xs and ys must have equal length.
func Pearson(xs, ys []float64) float64 {
	mx, my := Mean(xs), Mean(ys)
	var xy, xx, yy float64
	for i := range xs {
		dx, dy := xs[i]-mx, ys[i]-my
		xy += dx * dy
		xx += dx * dx
		yy += dy * dy
	}
	r := xy / math.Sqrt(xx) / math.Sqrt(yy)
	return min(1, max(-1, r))
}
