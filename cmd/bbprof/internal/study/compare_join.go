package study

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/stat"
)

type joinRow struct {
	Name  string      `json:"name"`
	Here  *Comparison `json:"here"`
	There *Comparison `json:"there"`
	// Difference is between the differences here and there, in percent of a, with its 95 % interval.
	Difference float64         `json:"difference_percent"`
	Low        float64         `json:"ci_low_percent"`
	High       float64         `json:"ci_high_percent"`
	P          float64         `json:"p"`
	Adjusted   float64         `json:"p_adjusted"`
	Verdict    compare.Verdict `json:"verdict"` // slower: than there, relative to a
}

// readComparisons reads -json output, except what could not be measured.
func readComparisons(name string, stdin io.Reader) (all []*Comparison, err error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	lines := json.NewDecoder(bufio.NewReader(stdin))
	for n := 1; ; n++ {
		c := &Comparison{}
		if err := lines.Decode(c); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s, object %d: %w: it must be the output of bbprof compare -json", name, n, err)
		}
		if c.Conclusion == nil || c.Method == "" || !(c.DF > 0) {
			continue
		}
		if slices.ContainsFunc(all, func(other *Comparison) bool { return other.key() == c.key() }) {
			return nil, fmt.Errorf("%s, object %d: it holds %s twice: leave one of them out", name, n, c.key())
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no comparison: it must be the output of bbprof compare -json", name)
	}
	return all, nil
}

func (out *Comparison) key() string {
	return cmp.Or(out.Name, fmt.Sprintf("%s against %s", cmp.Or(out.B.Command, out.B.Hex), cmp.Or(out.A.Command, out.A.Hex)))
}

// unlike lists where comparisons differ in what they measured and how, as far as their results tell.
func (out *Comparison) unlike(here *Comparison) (all []string) {
	if out.Settings != nil && here.Settings != nil {
		all = resultfile.UnlikeSettings(out.Settings, here.Settings)
	}
	if len(all) > 0 {
		return all // states differ by -set and -init
	}
	if a, b := out.A.state(), here.A.state(); a != b {
		all = append(all, fmt.Sprintf("initial state of a: %s, here %s", a, b))
	}
	if a, b := out.B.state(), here.B.state(); a != b {
		all = append(all, fmt.Sprintf("initial state of b: %s, here %s", a, b))
	}
	return all
}

// known returns the mean difference with its standard error, from the interval.
func (out *Comparison) known() stat.Known {
	t := stat.Student(out.DF).Quantile(1 - stat.Level/2/float64(max(out.Comparisons, 1)))
	return stat.Known{Mean: out.Mean, Error: (out.High - out.Low) / 2 / t, DF: out.DF}
}

// join shows two results of the same comparisons side by side, and where they differ by more than layouts do.
func (c *compareCmd) join(std cli.Streams) error {
	here, err := readComparisons(c.results[0], std.In)
	if err != nil {
		return cli.Usage(err)
	}
	there, err := readComparisons(c.against, std.In)
	if err != nil {
		return cli.Usage(err)
	}
	of := map[string]*Comparison{}
	for _, out := range there {
		of[out.key()] = out
	}
	var all []joinRow
	var p []float64
	for _, out := range here {
		if other := of[out.key()]; other != nil {
			if unlike := other.unlike(out); len(unlike) > 0 {
				return cli.BadUsage("%s and %s do not measure %s alike: %s; measure both with the same flags",
					c.against, c.results[0], out.key(), strings.Join(unlike, "; "))
			}
			t := stat.Difference(other.known(), out.known())
			all, p = append(all, joinRow{Name: out.key(), Here: out, There: other, Difference: t.Mean, Low: t.Low, High: t.High, P: t.P}), append(p, t.P)
		}
	}
	if len(all) == 0 {
		return cli.BadUsage("%s and %s have no comparison in common: these are of %s, those of %s", c.results[0], c.against, here[0].key(), there[0].key())
	}
	for i, adjusted := range stat.Holm(p) {
		all[i].Adjusted, all[i].Verdict = adjusted, compare.Decide(all[i].Difference, adjusted)
	}
	if err := cli.WriteLines(&c.out, std, all, c.joinedText(all, len(here)+len(there)-2*len(all))); err != nil {
		return err
	}
	f := joinedFigure(all)
	f.Machine = all[0].Here.Host + "; there " + all[0].There.Host
	return c.plot.Draw(c.results[0]+" and "+c.against, nil, f)
}

func (c *compareCmd) joinedText(all []joinRow, alone int) string {
	t := cli.NewTable("lrlrlrlrl", "comparison", "here, %", "95 % interval", "there, %", "95 % interval", "apart, %", "95 % interval", "p, adj.", "b here is")
	counts := map[compare.Verdict]int{}
	contrary := 0
	for _, j := range all {
		counts[j.Verdict]++
		if a, b := j.Here.Verdict, j.There.Verdict; a != b && a != compare.Same && b != compare.Same {
			contrary++
		}
		says := string(j.Verdict)
		if j.Verdict != compare.Same {
			says += " than there"
		}
		t.Row(short(j.Name), signed(j.Here.Mean), interval(j.Here.Low, j.Here.High), signed(j.There.Mean), interval(j.There.Low, j.There.High),
			signed(j.Difference), interval(j.Low, j.High), fmt.Sprintf("%.2g", j.Adjusted), says)
	}
	apart := ""
	if here, there := all[0].Here.Machine, all[0].There.Machine; here != nil && there != nil {
		apart = "apart  " + cmp.Or(strings.Join(here.Differences(*there), "; "), "microcode, kernel, hypervisor, SMT and mitigations are the same") + "\n"
	}
	text := fmt.Sprintf("here   %s, %s\nthere  %s, %s\n%s%s%s in both: here b is slower than there in %d, faster in "+
		"%d, no difference in %d; opposite verdicts in %d\n",
		c.results[0], cmp.Or(all[0].Here.Host, "an unknown CPU"), c.against, cmp.Or(all[0].There.Host, "an unknown CPU"), apart, t,
		words.Plural(len(all), "comparison"), counts[compare.Slower], counts[compare.Faster], counts[compare.Same], contrary)
	if alone > 0 {
		text += fmt.Sprintf("%s in only one of the files\n", words.Plural(alone, "comparison"))
	}
	return text
}

// joinedFigure draws a comparison over the environment's size as two curves, and other comparisons' differences.
func joinedFigure(all []joinRow) plot.Figure {
	if len(all) == 1 && all[0].Here.curve() && all[0].There.curve() {
		h, t := all[0].Here, all[0].There
		return compare.Curve(all[0].Name, []plot.Series{h.Speedup("here", h.Pairs), t.Speedup("there", t.Pairs)})
	}
	if len(all) == 1 && all[0].sameLayouts() {
		return plot.Figure{Title: all[0].Name, Panels: []plot.Panel{{X: "speed-up here", Y: "speed-up there", Series: all[0].scatter()}}}
	}
	here, there := plot.Series{Name: "here", Kind: plot.Dots}, plot.Series{Name: "there", Kind: plot.Dots}
	var names, keys []string
	for i, j := range all {
		here.Add(float64(i), j.Here.Mean, j.Here.Low, j.Here.High)
		there.Add(float64(i)+0.2, j.There.Mean, j.There.Low, j.There.High)
		names, keys = append(names, fmt.Sprint(i+1)), append(keys, fmt.Sprintf("%d %s", i+1, j.Name))
	}
	return plot.Figure{Keys: keys, Panels: []plot.Panel{{Names: names, Y: "b against a, %", Zero: true, Series: []plot.Series{here, there}}}}
}

func (j joinRow) sameLayouts() bool {
	return len(j.Here.Pairs) > 1 && slices.EqualFunc(j.Here.Pairs, j.There.Pairs, func(a, b compare.Pair) bool { return reflect.DeepEqual(a.Layout, b.Layout) })
}

// scatter has a point for each layout, and marks those that are best here and there.
func (j joinRow) scatter() []plot.Series {
	type point struct{ here, there float64 }
	var all []point
	for i, p := range j.Here.Pairs {
		q := j.There.Pairs[i]
		all = append(all, point{compare.Value(p.A) / compare.Value(p.B), compare.Value(q.A) / compare.Value(q.B)})
	}
	slices.SortFunc(all, func(a, b point) int { return cmp.Compare(a.here, b.here) })
	series := func(name string, points ...point) plot.Series {
		s := plot.Series{Name: name, Kind: plot.Dots}
		for _, p := range points {
			s.X, s.Y = append(s.X, p.here), append(s.Y, p.there)
		}
		return s
	}
	best := slices.MaxFunc(all, func(a, b point) int { return cmp.Compare(a.there, b.there) })
	return []plot.Series{series("layouts", all...), series("best here", all[len(all)-1]), series("best there", best)}
}

// curve reports whether the layouts differ only in environment size, in ascending order.
func (out *Comparison) curve() bool {
	last := -1
	for _, p := range out.Pairs {
		if p.Layout.Env <= last || p.Layout.Stack != 0 || p.Layout.Heap != 0 || p.Layout.Link != 0 {
			return false
		}
		last = p.Layout.Env
	}
	return last > 0
}
