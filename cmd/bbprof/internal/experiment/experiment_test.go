package experiment

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
)

// TestOrder: every arm has its n-th measurement before any has its next, in an order that the seed decides.
func TestOrder(t *testing.T) {
	const arms, rounds = 5, 20
	order := func(seed uint64) (all []int) {
		told := 0
		_, err := Run(context.Background(), arms, Plan{Rounds: rounds, Seed: seed, Done: func(n int) { told = n }},
			func(_ context.Context, arm int) (int, error) {
				all = append(all, arm)
				return arm, nil
			})
		if err != nil || told != arms*rounds {
			t.Fatalf("%d told, %v", told, err)
		}
		return all
	}
	one := order(1)
	if !slices.Equal(one, order(1)) || slices.Equal(one, order(2)) {
		t.Error("a seed is not an order")
	}
	first := map[int]bool{}
	for round := range slices.Chunk(one, arms) {
		first[round[0]] = true
		require.Equal(t, "a round", []int{0, 1, 2, 3, 4}, slices.Sorted(slices.Values(round)))
	}
	require.Equal(t, "arms that come first", arms, len(first))
}

// TestErrors: values before an error are returned with it; an error after a signal is the signal's.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		values, err := Run(ctx, 2, Plan{Rounds: 9}, func(context.Context, int) (int, error) {
			if n++; n == 8 {
				if cancelled {
					cancel()
				}
				return 0, broken
			}
			return n, nil
		})
		if min(len(values[0]), len(values[1])) != 3 || len(values[0])+len(values[1]) != 7 ||
			cancelled != errors.Is(err, context.Canceled) || cancelled == errors.Is(err, broken) {
			t.Errorf("%v, %v", values, err)
		}
		cancel()
	}
}

// world simulates a machine with noise, drift, and values that double because of other work.
type world struct {
	*rand.Rand
	noise, drift, disturbed float64
	n                       int
}

func (w *world) measure(_ context.Context, truth float64) (float64, error) {
	w.n++
	v := truth * (1 + w.noise*w.NormFloat64() + w.drift*float64(w.n))
	if w.Float64() < w.disturbed {
		v *= 2
	}
	return v, nil
}

// TestCoverage: with known truth, effects are unbiased, and joint intervals cover it as often as promised.
func TestCoverage(t *testing.T) {
	const experiments = 1000
	effects := []float64{0, 5, -10, 1}
	for _, c := range []struct {
		name     string
		world    world
		estimate Estimate
		rounds   int
	}{
		{"means of few", world{noise: 0.01}, Mean, 3},
		{"means under drift", world{noise: 0.01, drift: 0.0002}, Mean, 10},
		{"medians", world{noise: 0.01}, Median, 16},
		{"medians beside other work", world{noise: 0.01, disturbed: 0.05}, Median, 20},
	} {
		together, sums := 0, make([]float64, len(effects))
		var questions []Question[float64]
		for _, e := range effects {
			questions = append(questions, Question[float64]{With: 100 + e, Without: 100})
		}
		questions = append(questions, Question[float64]{Finding: Finding{Outcome: Absent}})
		for seed := range uint64(experiments) {
			w := c.world
			w.Rand = rand.New(rand.NewPCG(seed, 1))
			found, err := Ask(context.Background(), Asking{Plan: Plan{Rounds: c.rounds, Seed: seed}, Estimate: c.estimate,
				Least: 3}, slices.Clone(questions), w.measure)
			if err != nil || len(found) != 5 || found[4].Effect != nil || found[4].Outcome != Absent {
				t.Fatalf("%+v, %v", found, err)
			}
			all := true
			for i, e := range effects {
				all = all && found[i].Low <= e && e <= found[i].High
				sums[i] += (found[i].Size - e) / experiments
			}
			if all {
				together++
			}
		}
		if share := float64(together) / experiments; share < 0.93 { // 0.95, less three standard errors
			t.Errorf("%s: the intervals hold together in %.3f of experiments", c.name, share)
		}
		for i, bias := range sums {
			if c.world.disturbed == 0 && math.Abs(bias) > 0.2 {
				t.Errorf("%s: an effect of %g has a bias of %.3f", c.name, effects[i], bias)
			}
		}
	}
}

// TestFalseConfirmations: without effects, one experiment in twenty confirms one; a true effect is found.
func TestFalseConfirmations(t *testing.T) {
	const experiments = 1000
	for _, estimate := range []Estimate{Mean, Median} {
		confirmed, found := 0, 0
		for seed := range uint64(experiments) {
			w := &world{Rand: rand.New(rand.NewPCG(seed, 2)), noise: 0.1}
			asking := Asking{Plan: Plan{Rounds: 12, Seed: seed}, Estimate: estimate, Least: 3}
			equal := slices.Repeat([]Question[float64]{{With: 1000, Without: 1000}}, 7)
			findings, _ := Ask(context.Background(), asking, equal, w.measure)
			confirmed += min(len(Confirmed(findings)), 1)
			w.noise = 0.01
			findings, _ = Ask(context.Background(), asking, []Question[float64]{{With: 1100, Without: 1000}}, w.measure)
			found += len(Confirmed(findings))
		}
		if confirmed > experiments*7/100 || found < experiments*99/100 {
			t.Errorf("of %d, %d confirm a cause that is not there, and %d one that is", experiments, confirmed, found)
		}
	}
}

// TestJudge covers the boundaries of the outcomes.
func TestJudge(t *testing.T) {
	sides := func(effect, spread float64, rounds int) (x, y []float64) {
		for i := range rounds {
			x, y = append(x, 10+effect+spread*float64(2*(i%2)-1)), append(y, 10)
		}
		return x, y
	}
	for _, c := range []struct {
		name           string
		effect, spread float64
		rounds         int
		want           stat.Outcome
	}{
		{"just 2 %", 0.2001, 0.001, 10, stat.Confirmed},
		{"just below", 0.1999, 0.0001, 10, stat.NoEffect},
		{"just below, and its interval reaches further", 0.1999, 0.001, 10, stat.Unclear},
		{"faster by 2 %", -0.21, 0.001, 10, stat.Confirmed},
		{"nothing", 0, 0.001, 10, stat.NoEffect},
		{"wide, with 0", 0.5, 2, 10, stat.Unclear},
		{"two rounds", 5, 0, 2, ""},
		{"three", 5, 0, 3, stat.Confirmed},
	} {
		var q Question[int]
		x, y := sides(c.effect, c.spread, c.rounds)
		if q.evaluate(Asking{Estimate: Mean, Least: 3, Tests: 1}, x, y); q.Outcome != c.want {
			t.Errorf("%s: %+v", c.name, q.Finding)
		}
	}
	var q Question[int]
	x, y := sides(1, 0.1, 10)
	q.evaluate(Asking{Estimate: Mean, Tests: 1}, append(x, 0, 7), append(y, 7, 0)) // rounds without a measurement do not count
	if math.Abs(q.High-1.0754) > 0.0005 || q.Rounds != 10 {                        // ten differences of 1 ± 0.1: sd 0.1054, t(9) = 2.262, so ± 0.0754
		t.Errorf("%+v", q.Effect)
	}
	found, _ := Ask(context.Background(), Asking{Plan: Plan{Rounds: 4}, Estimate: Mean, Least: 3}, []Question[float64]{{With: 0, Without: 1}},
		func(_ context.Context, v float64) (float64, error) { return v, nil })
	if found[0].Outcome != stat.Unclear || found[0].Effect != nil {
		t.Errorf("without a value: %+v", found[0])
	}
}
