package study

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/verdict"
)

// Comparison compares one side with the first.
type Comparison struct {
	Name    string        `json:"name,omitempty"` // in a suite
	A       sideReport    `json:"a"`
	B       sideReport    `json:"b"`
	Seed    uint64        `json:"seed"`
	Host    string        `json:"host,omitempty"` // the CPU
	Machine *host.Machine `json:"machine,omitempty"`
	Cycles  string        `json:"cycles_are,omitempty"` // for programs: how they were measured
	Trials  int           `json:"trials"`
	// Settings are how to measure, by flags' names.
	Settings            map[string]any `json:"settings,omitempty"`
	*compare.Conclusion                // nil if Rejection or Failure is set
	Adjusted            float64        `json:"p_adjusted,omitzero"` // for all comparisons
	LayoutsForPercent   int            `json:"layouts_for_1_percent,omitzero"`

	Rejection  *verdict.Rejection `json:"rejection,omitempty"`
	Side       string             `json:"rejected_side,omitempty"`
	Incomplete bool               `json:"incomplete,omitempty"` // interrupted before the last layout
	Failure    string             `json:"failure,omitempty"`    // of a program of a suite

	Pairs   []compare.Pair    `json:"pairs,omitempty"`
	Dropped []compare.Dropped `json:"dropped,omitempty"`

	measured []compare.Measured
	unit     string // of the values
}

type sideReport struct {
	Command      string `json:"command,omitempty"`
	Hex          string `json:"hex,omitempty"`
	Instructions int    `json:"instructions,omitzero"`
	Bytes        int    `json:"bytes,omitzero"`
	Init         string `json:"init,omitempty"`
	Set          string `json:"set,omitempty"` // what was changed in that state
	Line         int    `json:"line,omitzero"` // in its file

	Cycles *compare.Summary `json:"cycles,omitempty"` // over the layouts
}

// concluded reports whether the sides were measured in enough layouts.
func (out *Comparison) concluded() bool { return out.Rejection == nil && out.Failure == "" }

func concluded(all []*Comparison) []*Comparison {
	return slices.DeleteFunc(slices.Clone(all), func(out *Comparison) bool { return !out.concluded() })
}

// adjust corrects the outcomes for the number of tests: without it, five of a hundred equal pairs would differ by
// chance.
func adjust(all []*Comparison) {
	all = concluded(all)
	var p []float64
	for _, out := range all {
		p = append(p, out.P)
	}
	for i, adjusted := range stat.Holm(p) {
		if all[i].Adjusted = adjusted; adjusted >= stat.Level {
			all[i].Verdict = compare.Same
		}
	}
}

// comparisons is a run's result: the other sides, or a suite's programs.
type comparisons struct {
	*compareCmd
	all   []*Comparison
	what  string // what each of them is
	left  int    // number not reached
	end   error  // why: a signal's or the host's error
	suite *compare.Suite
}

func (r *comparisons) finish(std cli.Streams) error {
	return cli.Ended(r.end, len(r.all) > 0, func() error {
		if err := r.out.Stream(std, r.write); err != nil {
			return err
		}
		switch all := concluded(r.all); {
		case len(all) > 0:
			return r.plot.Draw(r.subject(), r.measuring.CPUs, r.figure(all))
		case r.what == "program": // its failure is the error
			return nil
		}
		return cli.ErrRejected
	})
}

func (r *comparisons) write(w io.Writer) error {
	if !r.out.JSON {
		_, err := io.WriteString(w, r.text())
		return err
	}
	if err := cli.JSONLines(w, r.all); err != nil {
		return err
	}
	if r.what == "program" {
		return json.NewEncoder(w).Encode(map[string]any{"suite": r.suite, "programs_left": r.left})
	}
	return nil
}

func (r *comparisons) subject() string {
	if r.what == "program" {
		return "suite " + r.compareCmd.suite
	}
	var names []string
	for _, s := range r.measuredSides() {
		names = append(names, s.subject())
	}
	for i := range names {
		names[i] = compare.Name(i) + ": " + names[i]
	}
	return strings.Join(names, "\n")
}

func (r *comparisons) measuredSides() []sideReport {
	all := []sideReport{r.all[0].A}
	for _, out := range r.all {
		all = append(all, out.B)
	}
	return all
}

func (r *comparisons) figure(all []*Comparison) plot.Figure {
	var cs []compare.Conclusion
	var names []string
	var pairs [][]compare.Pair
	for _, out := range all {
		cs, names, pairs = append(cs, *out.Conclusion), append(names, out.Name), append(pairs, out.Pairs)
	}
	switch {
	case r.what == "program":
		return r.suite.Figure(names, pairs)
	case r.env != nil:
		var curves []plot.Series
		for i, c := range cs {
			curves = append(curves, c.Speedup(compare.Name(i+1), pairs[i]))
		}
		return compare.Curve("", curves)
	}
	return compare.Figure(all[0].unit, cs, all[0].measured)
}

func (r *comparisons) text() string {
	switch first := r.all[0]; {
	case r.what == "side" && (len(r.all) == 1 || first.Rejection != nil):
		return r.report()
	case r.what == "side":
		return r.sidesTable() + r.common()
	}
	measured := 0
	count := map[compare.Verdict]int{}
	t := cli.NewTable("lrrrlrll", r.what, "a", "b", "diff. %", "95 % interval", "p, adj.", "b is", "contrary")
	for _, out := range r.all {
		if !out.concluded() {
			t.Row(out.Name, "", "", "", "", "", "not measured", out.why())
			continue
		}
		measured++
		count[out.Verdict]++
		t.Row(out.Name, cycles(out.Conclusion.A.Mean), cycles(out.Conclusion.B.Mean), signed(out.Mean),
			interval(out.Low, out.High), fmt.Sprintf("%.2g", out.Adjusted), string(out.Verdict), fmt.Sprintf("%d of %d layouts", out.Contrary(), out.Layouts))
	}
	var w blockflags.Reporter
	fmt.Fprintf(&w, "%s%s: %d slower, %d faster, %d no difference, %d not measured\n", t, words.Plural(len(r.all), r.what),
		count[compare.Slower], count[compare.Faster], count[compare.Same], len(r.all)-measured)
	if r.left > 0 {
		fmt.Fprintf(&w, "incomplete: %s before the last %s\n", blockflags.EndedBy(r.end), words.Plural(r.left, r.what))
	}
	if r.suite != nil {
		suiteLines(&w, r.suite)
	}
	return w.String()
}

func (out *Comparison) why() string {
	switch {
	case out.Name != "":
		return out.Failure
	case out.Rejection == nil:
		return short(out.A.Hex) + ": bbprof failed: " + out.Failure
	}
	s := fmt.Sprintf("%s: %s is rejected: %v", short(out.A.Hex), compare.FlagOf(out.Side), out.Rejection.Reason)
	if len(out.Dropped) > 0 {
		s += fmt.Sprintf(" (in %d of %d layouts)", len(out.Dropped), len(out.Pairs)+len(out.Dropped))
	}
	return s
}

func (r *comparisons) sidesTable() string {
	first := r.all[0]
	t := cli.NewTable("lrrrlrll", "side", "cycles", "in the layouts", "diff. %", "95 % interval", "p", "against a", "")
	row := func(name string, s compare.Summary, side sideReport, more ...string) {
		t.Row(slices.Concat([]string{name, cycles(s.Mean), cycles(s.Low) + " to " + cycles(s.High)}, more, []string{side.subject()})...)
	}
	row("a", first.Conclusion.A, first.A, "", "", "", "")
	for i, out := range r.all {
		row(compare.Name(i+1), out.Conclusion.B, out.B, signed(out.Mean), interval(out.Low, out.High), fmt.Sprintf("%.2g", out.P), string(out.Verdict))
	}
	return t.String() + fmt.Sprintf("the intervals of all %s hold together with 95 %%\n", words.Plural(len(r.all), "difference"))
}

func (r *comparisons) report() string {
	var w blockflags.Reporter
	out := r.all[0]
	if out.Rejection != nil {
		fmt.Fprintf(&w, "rejected: %s: %v\n", compare.FlagOf(out.Side), out.Rejection)
		for i, s := range r.measuredSides() {
			w.Line(compare.Name(i), "%s", s.text())
		}
		if n := len(out.Pairs) + len(out.Dropped); n > 0 {
			w.Line("layouts", "%d of %d measured, and a comparison needs two", len(out.Pairs), n)
		}
		return w.String()
	}
	if out.Verdict == compare.Same {
		fmt.Fprintf(&w, "no difference above %.2f %%: b against a %s %%", out.Bound(), signed(out.Mean))
	} else {
		fmt.Fprintf(&w, "b is %s than a by %.2f %%", out.Verdict, max(out.Mean, -out.Mean))
	}
	fmt.Fprintf(&w, ", 95 %% interval %s %%\n", interval(out.Low, out.High))
	for i, s := range []compare.Summary{out.Conclusion.A, out.Conclusion.B} {
		w.Line(compare.Name(i), "%s %s, %s to %s in the layouts: %s", cycles(s.Mean), out.unit, cycles(s.Low), cycles(s.High),
			r.measuredSides()[i].text())
	}
	return w.String() + r.common()
}

func (r *comparisons) common() string {
	var w blockflags.Reporter
	first := r.all[0]
	if first.Cycles != "" {
		w.Line("cycles", "%s", first.Cycles)
	} else {
		w.Line("init", "%s, moved with the layout%s", first.A.state(), map[bool]string{true: ", each pointer by itself"}[r.apart])
	}
	if first.Itself != nil {
		w.Line("control", "a against itself: %s", first.Itself)
	}
	w.Line("layouts", "%s of seed %d%s, measured %s each", r.layoutsText(), r.seed, dropped(first.Dropped), times(r.trials))
	for i, out := range r.all {
		if len(r.all) > 1 {
			fmt.Fprintf(&w, "%s: %s\n", compare.Name(i+1), out.B.subject())
		}
		r.details(&w, out)
	}
	if first.Incomplete {
		w.Line("incomplete", "interrupted after %d of %d layouts", first.Layouts, r.layouts*r.setups)
	}
	return w.String()
}

func (r *comparisons) details(w *blockflags.Reporter, out *Comparison) {
	w.Line("test", "%s, p = %.2g with %.4g degrees of freedom", out.Method, out.P, out.DF)
	w.Line("won", "a %d, b %d of %d layouts", out.WonA, out.WonB, out.Layouts)
	byDifference := func(a, b compare.Alone) int { return cmp.Compare(a.Difference, b.Difference) }
	least, most := slices.MinFunc(out.Alone, byDifference), slices.MaxFunc(out.Alone, byDifference)
	w.Line("alone", "one layout would have said: slower %d, faster %d, no difference %d times; from %+.2f to %+.2f %%",
		out.Says[compare.Slower], out.Says[compare.Faster], out.Says[compare.Same], least.Difference, most.Difference)
	if r.env != nil {
		at := func(a compare.Alone) string {
			return fmt.Sprintf("%.3f at %d bytes", 1/(1+a.Difference/100), out.Pairs[slices.Index(out.Alone, a)].Layout.Env)
		}
		w.Line("speed-up", "from %s to %s of the environment", at(most), at(least))
	}
	if r.link {
		w.Line("best a", "%s", extreme(out.Pairs, func(p compare.Pair) float64 { return compare.Value(p.A) }))
		w.Line("best b", "%s", extreme(out.Pairs, func(p compare.Pair) float64 { return compare.Value(p.B) }))
		w.Line("worst a", "%s", extreme(out.Pairs, func(p compare.Pair) float64 { return -compare.Value(p.A) }))
		w.Line("worst b", "%s", extreme(out.Pairs, func(p compare.Pair) float64 { return -compare.Value(p.B) }))
		opposite := map[compare.Verdict]string{compare.Slower: "that b is faster", compare.Faster: "that b is slower",
			compare.Same: "that there is a difference"}
		w.Line("contrary", "%d of %d layouts (%.0f %%) alone would have said %s", out.Contrary(), out.Layouts,
			100*float64(out.Contrary())/float64(out.Layouts), opposite[out.Verdict])
		w.Line("proposal", "%s: mean of all %d × %d differences, taken as independent", out.Proposal, out.Layouts, r.trials)
		if out.Median != nil {
			w.Line("median", "%s: median of all %d differences of medians", out.Median, out.Layouts)
		}
	}
	takes := ""
	if r.setups == 1 && len(r.all) == 1 {
		takes = "; one of 1 % takes too many to tell"
		if n := out.LayoutsForPercent; n > 0 {
			takes = fmt.Sprintf("; one of 1 %% takes %d", n)
		}
	}
	w.Line("detects", "a difference of %.2f %% in 4 of 5 runs with so many layouts%s", out.Detects, takes)
}

func (r *comparisons) layoutsText() string {
	n := r.all[0].Layouts
	switch {
	case r.link && r.setups == 1:
		return fmt.Sprintf("%d links, each in a set-up of its own,", n)
	case r.link:
		return fmt.Sprintf("%d links × %d set-ups", n/r.setups, r.setups)
	}
	return strconv.Itoa(n)
}

func signed(percent float64) string { return fmt.Sprintf("%+.2f", percent) }

func interval(low, high float64) string { return signed(low) + " to " + signed(high) }

// cycles formats with three decimals, or none for a program.
func cycles(n float64) string {
	if n >= 1e5 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.3f", n)
}

func (b sideReport) subject() string {
	if b.Command != "" {
		return b.Command
	}
	return blockflags.BlockSubject(b.Hex)
}

// state is the initial state of a block.
func (b sideReport) state() string {
	if b.Set != "" {
		return b.Init + " with " + b.Set
	}
	return b.Init
}

func (b sideReport) text() string {
	if b.Command != "" {
		return b.Command
	}
	return fmt.Sprintf("%s in %s: %s", words.Plural(b.Instructions, "instruction"), words.Plural(b.Bytes, "byte"), b.Hex)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// dropped says how many layouts were dropped, and why the first was.
func dropped(d []compare.Dropped) string {
	if len(d) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d more dropped, the first because %s is rejected there: %s)", len(d), compare.FlagOf(d[0].Side), d[0].Rejection.Reason)
}

// ofSuite compares each program by measured. A program's error becomes its Failure, and failed is the last; any other
// error ends the suite.
func (r *comparisons) ofSuite(suite []member, placed []placement, measured func(i int) ([]*Comparison, error)) (failed error) {
	for i, m := range suite {
		out, err := measured(i)
		if bad := (*launch.Error)(nil); errors.As(err, &bad) {
			failed = m.named(err)
			out = []*Comparison{r.comparison(placed[i].commands, 1)}
			out[0].Failure, err = err.Error(), nil
		}
		if out != nil {
			out[0].Name = m.name
			r.all = append(r.all, out[0])
		}
		if r.end = err; err != nil {
			break
		}
	}
	adjust(r.all)
	r.what, r.left = "program", len(suite)-len(r.all)
	var programs [][]compare.Pair
	for _, out := range concluded(r.all) {
		programs = append(programs, out.Pairs)
	}
	if len(programs) > 0 {
		of := compare.OfSuite(programs)
		r.suite = &of
	}
	return failed
}

func suiteLines(t *blockflags.Reporter, s *compare.Suite) {
	interval := ""
	if s.Low > 0 {
		interval = fmt.Sprintf(", 95 %% interval over programs %.3f to %.3f", s.Low, s.High)
	}
	t.Line("speed-up", "of b, geometric mean over programs and layouts: %.3f%s", s.Mean, interval)
	t.Line("best", "%.3f in %s", s.Speedups[s.Best], placeText(s.Layouts[s.Best]))
	t.Line("worst", "%.3f in %s", s.Speedups[s.Worst], placeText(s.Layouts[s.Worst]))
	slower := 0
	for _, x := range s.Speedups {
		if x < 1 {
			slower++
		}
	}
	t.Line("layouts", "in %d of %d b looks slower over the suite, in %d faster", slower, len(s.Speedups), len(s.Speedups)-slower)
	t.Line("straddle", "%s faster in some layouts and slower in others", words.Plural(s.Straddle, "program"))
}

// extreme tells of the layout whose value is least.
func extreme(pairs []compare.Pair, value func(compare.Pair) float64) string {
	p := slices.MinFunc(pairs, func(a, b compare.Pair) int { return cmp.Compare(value(a), value(b)) })
	return fmt.Sprintf("%.0f cycles in %s", math.Abs(value(p)), placeText(p.Layout))
}

func placeText(l compare.Layout) string {
	text := fmt.Sprintf("layout %d: environment +%d bytes, stack -%d, heap +%d", l.Number, l.Env, l.Stack, l.Heap)
	if l.Link > 0 {
		text += fmt.Sprintf(", link seed %d", l.Link)
	}
	if l.Order != "" {
		text += ", objects in " + l.Order + " order (-json lists them)"
	}
	return text
}
