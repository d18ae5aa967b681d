package study

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

func (out *Comparison) report(c *comparing) string {
	var w strings.Builder
	line := func(name, format string, args ...any) {
		w.WriteString(strings.TrimRight(fmt.Sprintf("%-12s"+format, append([]any{name}, args...)...), " ") + "\n")
	}
	if r := out.Rejection; r != nil {
		fmt.Fprintf(&w, "rejected: -%s: %v\n", out.Side, r)
		line("a", "%s", out.A.text())
		line("b", "%s", out.B.text())
		if n := len(out.Pairs) + len(out.Dropped); n > 0 {
			line("layouts", "%d of %d measured, and a comparison needs two", len(out.Pairs), n)
		}
		return w.String()
	}
	fmt.Fprintln(&w, out.headline())
	for _, s := range []struct {
		name string
		side compared
		compare.Summary
	}{{"a", out.A, out.Conclusion.A}, {"b", out.B, out.Conclusion.B}} {
		line(s.name, "%s %s, %s to %s in the layouts: %s", cycles(s.Mean), out.unit, cycles(s.Low), cycles(s.High), s.side.text())
	}
	if out.Cycles != "" {
		line("cycles", "%s", out.Cycles)
	} else {
		line("init", "%s, moved with the layout%s", out.A.Init, map[bool]string{true: ", each pointer by itself"}[c.apart])
	}
	line("layouts", "%s of seed %d%s, measured %s each", out.layouts(c), c.seed, dropped(out.Dropped), times(c.repetitions))
	line("test", "%s, p = %.2g with %.4g degrees of freedom", out.Method, out.P, out.DF)
	if !c.unpaired {
		line("won", "a %d, b %d of %d layouts", out.WonA, out.WonB, out.Layouts)
		line("alone", "one layout would have said: slower %d, faster %d, no difference %d times; from %+.2f to %+.2f %%",
			out.Says[compare.Slower], out.Says[compare.Faster], out.Says[compare.Same], slices.Min(out.differences()), slices.Max(out.differences()))
	}
	if c.linking.on {
		line("contrary", "%d of %d layouts (%.0f %%) alone would have said %s", out.Contrary(), out.Layouts, 100*float64(out.Contrary())/float64(out.Layouts), opposite(out.Verdict))
		line("proposal", "%s: mean of all %d differences of means, taken as independent", out.Proposal, out.Layouts)
		if out.Median != nil {
			line("median", "%s: median of all %d differences of medians", out.Median, out.Layouts)
		}
	}
	if out.Incomplete {
		line("incomplete", "interrupted after %d of %d layouts", out.Layouts, c.layouts*c.linking.setups)
	}
	takes := ""
	if c.linking.setups == 1 {
		takes = "; one of 1 % takes " + enough(out.LayoutsForPercent)
	}
	line("detects", "a difference of %.2f %% in 4 of 5 runs with so many layouts%s", out.Detects, takes)
	if c.verbose {
		out.table(&w, c)
	}
	return w.String()
}

func (out *Comparison) layouts(c *comparing) string {
	switch {
	case !c.linking.on:
		return strconv.Itoa(out.Layouts)
	case c.linking.setups == 1:
		return fmt.Sprintf("%d links, each in a set-up of its own,", out.Layouts)
	}
	return fmt.Sprintf("%d links × %d set-ups", out.Layouts/c.linking.setups, c.linking.setups)
}

func opposite(v compare.Verdict) string {
	switch v {
	case compare.Slower:
		return "that b is faster"
	case compare.Faster:
		return "that b is slower"
	}
	return "that there is a difference"
}

// enough is a number of layouts, 0 for more than anybody takes.
func enough(layouts int) string {
	if layouts == 0 {
		return "too many to tell"
	}
	return strconv.Itoa(layouts)
}

func (out *Comparison) headline() string {
	interval := fmt.Sprintf("95 %% interval %s to %s %%", signed(out.Low), signed(out.High))
	switch out.Verdict {
	case compare.Slower:
		return fmt.Sprintf("b is slower than a by %.2f %%, %s", out.Mean, interval)
	case compare.Faster:
		return fmt.Sprintf("b is faster than a by %.2f %%, %s", -out.Mean, interval)
	}
	return fmt.Sprintf("no difference: b against a %s %%, %s", signed(out.Mean), interval)
}

func signed(percent float64) string { return fmt.Sprintf("%+.2f", percent) }

// cycles has three decimals, or of a program's many none.
func cycles(n float64) string {
	if n >= 1e5 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.3f", n)
}

func (b compared) subject() string {
	if b.Command != "" {
		return b.Command
	}
	return measuring.BlockSubject(b.Hex)
}

func (b compared) text() string {
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

// dropped says how many layouts do not count, and why the first does not.
func dropped(d []compare.Dropped) string {
	if len(d) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d more dropped, the first because -%s is rejected there: %s)", len(d), d[0].Side, d[0].Rejection.Reason)
}

func (out *Comparison) differences() (all []float64) {
	for _, a := range out.Alone {
		all = append(all, a.Difference)
	}
	return all
}

func (out *Comparison) table(w io.Writer, c *comparing) {
	header, sides := []string{"layout", "code", "data"}, "rrr"
	if out.Cycles != "" {
		header, sides = []string{"layout", "env", "stack", "heap"}, "rrrr"
	}
	if c.linking.on {
		header, sides = append(header, "link seed", "order"), sides+"rl"
	}
	t := cli.NewTable(sides+"rrrl", append(header, "a", "b", "diff. %", "alone")...)
	for i, p := range out.Pairs {
		l := p.Layout
		cells := []string{fmt.Sprint(l.Number), fmt.Sprint(l.Start), fmt.Sprint(l.Data)}
		if out.Cycles != "" {
			cells = []string{fmt.Sprint(l.Number), fmt.Sprint(l.Env), fmt.Sprint(l.Stack), fmt.Sprint(l.Heap)}
		}
		if c.linking.on {
			cells = append(cells, fmt.Sprint(l.Link), fmt.Sprint(l.Order))
		}
		t.Row(append(cells, cycles(compare.Value(p.A)), cycles(compare.Value(p.B)), signed(out.Alone[i].Difference), string(out.Alone[i].Verdict))...)
	}
	io.WriteString(w, t.String())
}
