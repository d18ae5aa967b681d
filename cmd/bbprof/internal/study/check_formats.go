package study

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// formats are the ways to write a check's result, those of other tools by their names.
var formats = map[string]func(io.Writer, checked) error{
	formatText:                writeText,
	"json":                    func(w io.Writer, c checked) error { return json.NewEncoder(w).Encode(c) },
	"markdown":                markdown,
	"benchstat":               benchstat,
	"bmf":                     bencher,
	"github-action-benchmark": actionBenchmark,
	"junit":                   junit,
	"sarif":                   sarif,
}

const formatText = "text"

// tally says how many functions have which verdict.
func (c checked) tally() string {
	n := map[check.Verdict]int{}
	for _, f := range c.Functions {
		n[f.Verdict(c.Threshold)]++
	}
	text := fmt.Sprintf("%s changed", words.Plural(len(c.Functions), "function"))
	if len(n) > 0 {
		text += ": " + strings.Join(words.Frequent(n), ", ")
	}
	text = fmt.Sprintf("%s; %s the same", text, words.Plural(c.Equal, "function"))
	if unmatched := len(slices.DeleteFunc(slices.Clone(c.Functions), func(f check.Function) bool { return !f.Unmatched })); unmatched > 0 {
		text += fmt.Sprintf("; of %d without a name none like it is in the other build: check files that are not stripped", unmatched)
	}
	return text
}

// numbers are a change's or function's base, head, difference and interval; empty where they are not known.
func numbers(t check.Times, compared bool) (cells [4]string) {
	for i, cycles := range []float64{t.Base, t.Head} {
		if cycles > 0 {
			cells[i] = strconv.FormatFloat(cycles, 'f', 3, 64)
		}
	}
	if compared {
		cells[2], cells[3] = fmt.Sprintf("%+.1f %%", t.Difference), fmt.Sprintf("%+.1f to %+.1f", t.Low, t.High)
	}
	return cells
}

func compared(c check.Change) bool {
	return c.Interval != nil && c.Verdict != check.Unknown && c.Verdict != check.Listed
}

// why is what to know of a change beside its numbers.
func why(c check.Change) string {
	switch {
	case c.Rejection != nil:
		return string(c.Rejection.Reason)
	case c.Failure != "":
		return c.Failure
	case c.What == check.Moved && c.Verdict == check.Same:
		return "moved, not slower"
	case c.Standing != 0:
		return fmt.Sprintf("%+.1f %% where it stands", c.Standing)
	case c.Outside && c.Verdict == check.Listed && c.What == check.Changed:
		return "how often it runs is not known; -profile weighs it"
	}
	left := slices.DeleteFunc(slices.Clone(c.Base), func(p *check.Piece) bool { return p.Rejection == nil })
	if len(left) > 0 {
		return fmt.Sprintf("without %d that could not be measured: %s", len(left), left[0].Rejection.Reason)
	}
	return ""
}

// eachRow calls row for each line of the table: a function's cost, where it is known, and its changes.
func (c checked) eachRow(row func(function, what string, cells [4]string, v check.Verdict, note string)) {
	for _, f := range c.Functions {
		if f.Cost != nil {
			note := ""
			if f.Cost.Missing > 0 {
				note = fmt.Sprintf("%.2g %% of its instructions changed and were not measured", 100*f.Cost.Missing)
			}
			row(f.Name, "whole function, by its counts", numbers(f.Cost.Times, true), f.Verdict(c.Threshold), note)
		}
		for _, x := range f.Changes {
			row(f.Name, x.Describe(), numbers(x.Times, compared(x)), x.Verdict, why(x))
		}
	}
}

func writeText(w io.Writer, c checked) error {
	t := cli.NewTable("llrrrll", "function", "what changed", "base", "head", "difference", "95 % interval", "verdict")
	n := 0
	c.eachRow(func(function, what string, cells [4]string, v check.Verdict, note string) {
		n++
		if note != "" {
			note = ": " + note
		}
		t.Row(function, what, cells[0], cells[1], cells[2], cells[3], string(v)+note)
	})
	text := ""
	if n > 0 {
		text = t.String()
	}
	text += c.tally() + "\n"
	if c.Incomplete != "" {
		text += "incomplete: " + c.Incomplete + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// markdown writes a report for people who read a pull request.
func markdown(w io.Writer, c checked) error {
	var b strings.Builder
	cell := func(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
	fmt.Fprintf(&b, "### Cycles: %s\n\n", cell(c.tally()))
	if c.Incomplete != "" {
		fmt.Fprintf(&b, "**Incomplete, and no fault of the change:** %s\n\n", cell(c.Incomplete))
	}
	if len(c.Functions) > 0 {
		b.WriteString("| function | what changed | base | head | difference | 95 % interval | | verdict |\n|---|---|--:|--:|--:|---|---|---|\n")
		c.eachRow(func(function, what string, cells [4]string, v check.Verdict, note string) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s %s |\n", cell(function), what, cells[0], cells[1], cells[2], cells[3],
				c.bar(cells[3]), bold(v), cell(note))
		})
		b.WriteString("\nCycles are core cycles of one pass, base and head measured in turn in the same layouts; intervals hold jointly. ")
		fmt.Fprintf(&b, "The bar spans ±%g %%, `:` is the threshold of %g %%.\n", barSpan, 100*c.Threshold)
	}
	fmt.Fprintf(&b, "\n<sub>%s</sub>\n\n", cell(c.Machine.String()))
	_, err := io.WriteString(w, b.String())
	return err
}

func bold(v check.Verdict) string {
	if v == check.Slower {
		return "**" + string(v) + "**"
	}
	return string(v)
}

const (
	barSpan  = 20. // percent on either side
	barCells = 10
)

// bar draws an interval around zero in fixed-width text.
func (c checked) bar(interval string) string {
	var low, high float64
	if n, _ := fmt.Sscanf(interval, "%f to %f", &low, &high); n != 2 {
		return ""
	}
	at := func(percent float64) int {
		return barCells + int(math.Round(max(-barSpan, min(barSpan, percent))/barSpan*barCells))
	}
	cells := []byte(strings.Repeat(".", 2*barCells+1))
	cells[at(-100*c.Threshold)], cells[at(100*c.Threshold)], cells[barCells] = ':', ':', '|'
	for i := at(low); i <= at(high); i++ {
		cells[i] = '='
	}
	return "`" + string(cells) + "`"
}

// nameless matches what a name in Go's benchmark format cannot hold.
var nameless = regexp.MustCompile(`[\s/=]+`)

// eachCompared calls do for each change that was compared, with a name that is its own.
func (c checked) eachCompared(do func(name string, f check.Function, x check.Change)) {
	for _, f := range c.Functions {
		for i, x := range f.Changes {
			if compared(x) {
				do(fmt.Sprintf("%s/%d", nameless.ReplaceAllString(f.Name, "_"), i+1), f, x)
			}
		}
	}
}

// benchstat writes Go's benchmark format: a line for each layout, which benchstat -col build compares.
func benchstat(w io.Writer, c checked) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cpu: %s\nUnit cycles/op better=lower\n", c.Machine.Brand)
	for _, build := range []string{"base", "head"} {
		fmt.Fprintf(&b, "build: %s\n", build)
		c.eachCompared(func(name string, _ check.Function, x check.Change) {
			samples := x.Samples.Base
			if build == "head" {
				samples = x.Samples.Head
			}
			for _, s := range samples {
				fmt.Fprintf(&b, "Benchmark%s 1 %.6g cycles/op\n", name, s)
			}
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// bencher writes the Bencher Metric Format.
func bencher(w io.Writer, c checked) error {
	type metric struct {
		Value float64 `json:"value"`
		Lower float64 `json:"lower_value"`
		Upper float64 `json:"upper_value"`
	}
	all := map[string]map[string]metric{}
	c.eachCompared(func(name string, _ check.Function, x check.Change) {
		all[name] = map[string]metric{"cycles": {x.Times.Head, x.Times.Base * (1 + x.Low/100), x.Times.Base * (1 + x.High/100)}}
	})
	return json.NewEncoder(w).Encode(all)
}

// actionBenchmark writes what github-action-benchmark calls customSmallerIsBetter.
func actionBenchmark(w io.Writer, c checked) error {
	type entry struct {
		Name  string  `json:"name"`
		Unit  string  `json:"unit"`
		Value float64 `json:"value"`
		Range string  `json:"range"`
		Extra string  `json:"extra"`
	}
	all := []entry{}
	c.eachCompared(func(name string, _ check.Function, x check.Change) {
		all = append(all, entry{name, "cycles", x.Times.Head, fmt.Sprintf("± %.3f", x.Times.Base*(x.High-x.Low)/200),
			fmt.Sprintf("%s: %+.1f %% of %.3f, %s", x.Describe(), x.Difference, x.Times.Base, x.Verdict)})
	})
	return json.NewEncoder(w).Encode(all)
}

// junit writes a test case for each function; a slower one has failed.
func junit(w io.Writer, c checked) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testcase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *failure `xml:"failure,omitempty"`
		Skipped *failure `xml:"skipped,omitempty"`
	}
	type suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	s := suite{Name: "bbprof check", Tests: len(c.Functions)}
	for _, f := range c.Functions {
		one := testcase{Class: "bbprof", Name: f.Name}
		switch f.Verdict(c.Threshold) {
		case check.Slower:
			one.Failure = &failure{c.explain(f)}
			s.Failures++
		case check.Unknown, check.Unclear:
			one.Skipped = &failure{c.explain(f)}
			s.Skipped++
		}
		s.Cases = append(s.Cases, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	err := e.Encode(struct {
		XMLName xml.Name `xml:"testsuites"`
		Suite   suite    `xml:"testsuite"`
	}{Suite: s})
	if err == nil {
		_, err = io.WriteString(w, "\n")
	}
	return err
}

// explain says of a function what changed, in a sentence for each change.
func (c checked) explain(f check.Function) string {
	var parts []string
	checked{Functions: []check.Function{f}, Threshold: c.Threshold}.eachRow(func(_, what string, cells [4]string, v check.Verdict, note string) {
		text := what + ": "
		if cells[2] != "" {
			text += fmt.Sprintf("%s cycles instead of %s, %s (%s %%), ", cells[1], cells[0], cells[2], cells[3])
		}
		parts = append(parts, strings.TrimSuffix(text+string(v)+" "+note, " "))
	})
	return strings.Join(parts, "; ")
}

// sarif writes a result for each function that is slower, or by its layout, where its source is.
func sarif(w io.Writer, c checked) error {
	type object = map[string]any
	results := []object{}
	for _, f := range c.Functions {
		level := map[check.Verdict]string{check.Slower: "error", check.Layout: "note", check.Unclear: "note"}[f.Verdict(c.Threshold)]
		if level == "" {
			continue
		}
		result := object{"ruleId": "cycles/" + string(f.Verdict(c.Threshold)), "level": level, "message": object{"text": f.Name + ": " + c.explain(f)}}
		if file, line, ok := source(f); ok {
			result["locations"] = []object{{"physicalLocation": object{"artifactLocation": object{"uri": file}, "region": object{"startLine": line}}}}
		}
		results = append(results, result)
	}
	var rules []object
	for _, rule := range [][2]string{
		{"slower", "The function takes more cycles than in the base"},
		{"layout", "The same code takes another time where it stands now"},
		{"unclear", "The interval does not tell"},
	} {
		rules = append(rules, object{"id": "cycles/" + rule[0], "shortDescription": object{"text": rule[1]}})
	}
	return json.NewEncoder(w).Encode(object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": object{"name": "bbprof", "version": cli.Version(), "rules": rules}}, "results": results}},
	})
}

// source is where the first change of a function is.
func source(f check.Function) (file string, line int, ok bool) {
	for _, x := range f.Changes {
		for _, p := range append(x.Head, x.Base...) {
			if at := strings.LastIndexByte(p.Source, ':'); at > 0 {
				line, err := strconv.Atoi(p.Source[at+1:])
				return p.Source[:at], line, err == nil && line > 0
			}
		}
	}
	return "", 0, false
}
