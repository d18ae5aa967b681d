package stat

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Level is the false-positive rate of a test.
const Level = 0.05

// Test is a tested mean with its two-sided 95 % interval, which is infinite with fewer than two values; then P is 1.
type Test struct {
	Mean  float64 // or the difference of two
	Low   float64 // of the interval
	High  float64
	T     float64 // Mean in standard errors; infinite if all values are equal and not 0
	DF    float64 // degrees of freedom
	P     float64 // two-sided probability of a mean at least this far from 0 if the true one is 0
	Error float64 // standard error of Mean
}

// OneSample is Student's test; on differences of pairs it is the paired t-test (Student, Biometrika 6, 1908).
func OneSample(xs []float64) Test {
	n := float64(len(xs))
	return newTest(Mean(xs), sd(xs)/math.Sqrt(n), n-1)
}

// Welch tests the difference mean(b) − mean(a) of two independent samples with possibly different variances, with
// the degrees of freedom of Welch and Satterthwaite (Welch, Biometrika 34, 1947).
func Welch(a, b []float64) Test {
	na, nb := float64(len(a)), float64(len(b))
	return Difference(Known{Mean(a), sd(a) / math.Sqrt(na), na - 1}, Known{Mean(b), sd(b) / math.Sqrt(nb), nb - 1})
}

// Crossed tests the mean of a table whose rows and columns were both drawn at random, with a value per cell:
// values of one row share that row, so they are not independent. The variance of the mean follows from the mean
// squares of rows, columns and residuals, its degrees of freedom from Satterthwaite's approximation (Biometrics
// Bulletin 2, 1946). A table with a single row or column is one sample.
func Crossed(table [][]float64) Test {
	rows, columns := float64(len(table)), float64(len(table[0]))
	if rows == 1 || columns == 1 {
		return OneSample(slices.Concat(table...))
	}
	all := Mean(slices.Concat(table...))
	var byRow, byColumn, rest float64
	columnMeans := make([]float64, len(table[0]))
	for _, row := range table {
		for j, x := range row {
			columnMeans[j] += x / rows
		}
	}
	for _, row := range table {
		mean := Mean(row)
		byRow += columns * (mean - all) * (mean - all) / (rows - 1)
		for j, x := range row {
			e := x - mean - columnMeans[j] + all
			rest += e * e / ((rows - 1) * (columns - 1))
		}
	}
	for _, mean := range columnMeans {
		byColumn += rows * (mean - all) * (mean - all) / (columns - 1)
	}
	// Rows or columns that vary less than the residuals have no effect of their own.
	byRow, byColumn = max(byRow, rest), max(byColumn, rest)
	sum := byRow + byColumn - rest
	if sum == 0 {
		return newTest(all, 0, min(rows, columns)-1)
	}
	df := sum * sum / (byRow*byRow/(rows-1) + byColumn*byColumn/(columns-1) + rest*rest/((rows-1)*(columns-1)))
	return newTest(all, math.Sqrt(sum/(rows*columns)), df)
}

// Known is a mean of which only the standard error and its degrees of freedom are known.
type Known struct {
	Mean, Error, DF float64
}

// Difference is Welch's test of b − a for means whose standard errors are known.
func Difference(a, b Known) Test {
	va, vb := a.Error*a.Error, b.Error*b.Error
	df := min(a.DF, b.DF)
	if va+vb > 0 {
		df = (va + vb) * (va + vb) / (va*va/a.DF + vb*vb/b.DF)
	}
	return newTest(b.Mean-a.Mean, math.Sqrt(va+vb), df)
}

func newTest(mean, se, df float64) Test {
	t := Test{Mean: mean, Error: se, DF: df}
	if !(df > 0) || math.IsNaN(se) {
		t.Low, t.High, t.P, t.Error = math.Inf(-1), math.Inf(1), 1, math.Inf(1)
		return t
	}
	half := Student(df).Quantile(1-Level/2) * se
	t.Low, t.High = mean-half, mean+half
	if mean != 0 {
		t.T = mean / se
	}
	t.P = min(2*Student(df).survival(math.Abs(t.T)), 1)
	return t
}

// Detectable returns the true difference that such a test finds with a probability of power: a share of power of
// the means around it is significant. It uses Student's distribution for the noncentral one (Chow, Shao and Wang,
// Sample Size Calculations in Clinical Research, section 3.1).
func (t Test) Detectable(power float64) float64 {
	if math.IsInf(t.Error, 1) {
		return t.Error
	}
	d := Student(t.DF)
	return t.Error * (d.Quantile(1-Level/2) + d.Quantile(power))
}

// Enough returns the sample size that makes a difference detectable with a probability of power, given the scatter
// of t's n values; for two samples, the size of each. It is at most Many, also if t does not tell.
func (t Test) Enough(n int, difference, power float64) int {
	if !(difference > 0) || math.IsInf(t.Error, 1) || n < 2 {
		return Many
	}
	const fewest = 2
	return fewest + sort.Search(Many-fewest, func(i int) bool {
		m := float64(fewest + i)
		of := Test{Error: t.Error * math.Sqrt(float64(n)/m), DF: t.DF * (m - 1) / float64(n-1)}
		return of.Detectable(power) <= difference
	})
}

const Many = 1 << 31

// Holm adjusts p-values so that those at most Level are significant, and the probability of even one false
// positive is at most Level, under any dependence: the smallest is multiplied by their number, the next by one
// less, and so on, and none is below its predecessor (Holm, Scandinavian Journal of Statistics 6, 1979).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := make([]float64, len(p))
	least := 0.0
	for k, i := range order {
		least = max(least, min(p[i]*float64(len(p)-k), 1))
		adjusted[i] = least
	}
	return adjusted
}

type Outcome string

const (
	Confirmed Outcome = "confirmed" // it does
	NoEffect  Outcome = "no effect" // it does not
	Unclear   Outcome = "unclear"   // the interval holds both
)

// EffectShare is the share of the time by which two runs of one set-up may differ (docs/method.md).
const EffectShare = 0.02

// OutcomeOf classifies an effect on the shorter of two times by its interval.
func OutcomeOf(effect, low, high, shorter float64) Outcome {
	least := EffectShare * shorter
	switch {
	case low > 0 && effect >= least, high < 0 && effect <= -least:
		return Confirmed
	case low > -least && high < least:
		return NoEffect
	}
	return Unclear
}
