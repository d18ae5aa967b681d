package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/cpu"
)

// truth holds the measured blocks that models are judged by, each once.
type truth struct {
	blocks     []score.Block
	rows       int                  // in the files
	repeated   int                  // of them, with a block seen before
	rejections map[string]rejection // by block, if no row has measured it
	sensitive  int                  // left out: another initial state or row disagrees
	run        resultfile.Run       // the first of several
	core       predict.Core         // measured on; unnamed if unknown
	weight     string               // column of weights, or none
}

// rejection is why a block's first row has no measurement, and the weight of all its rows.
type rejection struct {
	reason string
	weight float64
}

type truthOptions struct {
	by        string // column of applications
	cycles    string // column of cycles, "" for the usual one
	core      string // core, if the results do not tell
	weight    string // column of weights, none, or "": column weight if there is one
	sensitive bool   // keep blocks that another initial state or row disagrees with
	// unmeasured also accepts files without measured blocks.
	unmeasured bool
}

func readTruth(names []string, stdin io.Reader, o truthOptions) (*truth, error) {
	t := &truth{rejections: map[string]rejection{}, weight: score.Unweighted}
	seen := map[string]int{}
	for _, name := range names {
		if err := t.readFile(name, stdin, o, seen); err != nil {
			return nil, err
		}
	}
	t.blocks = slices.DeleteFunc(t.blocks, func(b score.Block) bool { return seen[b.Hex] < 0 })
	switch {
	case len(t.blocks) == 0 && o.unmeasured:
	case len(t.blocks) == 0 && t.sensitive > 0:
		return nil, fmt.Errorf("%s: another initial state or row gives other cycles for every block; -keep-sensitive keeps them", names[0])
	case len(t.blocks) == 0:
		return nil, fmt.Errorf("%s: %s and none holds a measured block", names[0], words.Plural(t.rows, "row"))
	}
	core := cmp.Or(o.core, string(t.run.Host.Microarchitecture))
	found, ok := predict.CoreOf(core)
	if !ok && o.core != "" {
		return nil, fmt.Errorf("-core %s: bbprof does not know it; it knows %s", core, predict.CoreNames())
	}
	t.core = found
	if !score.Weighted(t.blocks) {
		t.weight = score.Unweighted
	}
	t.describe()
	return t, nil
}

// truthColumns names the columns that may have several names.
type truthColumns struct {
	hex, cycles, application string
	evidence                 []string
	headless                 bool // the first line is a row, not a header
	status                   bool // column status exists
}

func truthColumnsOf(s resultfile.Schema, by, measured string) (c truthColumns, err error) {
	names := s.Names()
	if len(names) == 0 {
		return c, errors.New("it is empty")
	}
	hex, cycles, headless, err := predict.Columns(names, measured)
	if err != nil {
		return c, err
	}
	c.headless, c.hex, c.cycles, c.status = headless, names[hex], names[cycles], s.Index("status") >= 0
	for _, name := range []string{"application", "app", "program", "source", "file", "column_2", "corpus"} { // batch names the last two
		if c.application == "" && s.Index(name) >= 0 {
			c.application = name
		}
	}
	c.evidence = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, evidencePrefix) })
	if by != "" {
		if c.application = by; s.Index(by) < 0 {
			return c, fmt.Errorf("-by %s: it has no such column; there are %q", by, names)
		}
	}
	return c, nil
}

// rows iterates over a file's rows, including a first line that is no header.
func (c *truthColumns) rows(in *resultfile.Rows) iter.Seq2[resultfile.Row, error] {
	if !c.headless {
		return in.All()
	}
	return func(yield func(resultfile.Row, error) bool) {
		if yield(in.Header(), nil) {
			in.All()(yield)
		}
	}
}

// cyclesOf returns a row's cycles, or why it has none.
func (c *truthColumns) cyclesOf(cell func(string) string) (cycles float64, why string) {
	if c.status && cell("status") != "ok" {
		return 0, cmp.Or(cell("reason"), cell("status"), "no status")
	}
	text := cell(c.cycles)
	if named := cell(text); named != "" { // loops_take names another column
		text = named
	}
	cycles, err := strconv.ParseFloat(text, 64)
	if err != nil || !(cycles > 0) || math.IsInf(cycles, 0) {
		return 0, "no cycles"
	}
	return cycles, ""
}

// evidencePrefix starts the names of evidence columns.
const evidencePrefix = "evidence_"

// evidenceOf lists a row's conditions by their evidence: counted, inferred or not checked.
func (c *truthColumns) evidenceOf(cell func(string) string) string {
	by := map[string][]string{}
	for _, name := range c.evidence {
		if kind := cell(name); kind != "" {
			by[kind] = append(by[kind], strings.TrimPrefix(name, evidencePrefix))
		}
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		list = append(list, kind+": "+strings.Join(by[kind], ", "))
	}
	return strings.Join(list, "; ")
}

func (t *truth) readFile(name string, stdin io.Reader, o truthOptions, seen map[string]int) error {
	in, err := resultfile.OpenRows(name, stdin)
	if err != nil && o.unmeasured {
		return nil // not a result; the reader of blocks reports the error
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if o.unmeasured && in.Schema.Index("cycles") < 0 {
		return nil
	}
	return t.read(in, o, seen)
}

func (t *truth) read(in *resultfile.Rows, o truthOptions, seen map[string]int) error {
	c, err := truthColumnsOf(in.Schema, o.by, o.cycles)
	if err != nil {
		return in.Error(err)
	}
	column, err := t.weights(in.Schema, o.weight)
	if err != nil {
		return in.Error(err)
	}
	names := texts{}
	for row, err := range c.rows(in) {
		if err != nil {
			return err
		}
		cell := row.Cell
		if text := cell("run_header"); text != "" {
			if err := t.note(text); err != nil {
				return in.Error(err)
			}
		}
		t.rows++
		weight := 0.0
		if column != "" {
			if weight, err = row.Weight(column); err != nil {
				return fmt.Errorf("%w; -weight none takes none", err)
			}
		}
		block, is := predict.Digits(cell(c.hex))
		if !is {
			block = strings.Clone(cell(c.hex))
		}
		if at, again := seen[block]; again {
			t.repeated++
			if at >= 0 {
				b := &t.blocks[at]
				b.Weight += weight
				if cycles, why := c.cyclesOf(cell); why == "" && !o.sensitive && differ(cycles, b.Cycles) {
					seen[b.Hex] = -1
					t.sensitive++
				}
			}
			continue
		}
		before, again := t.rejections[block]
		if again {
			t.repeated++
		}
		b := score.Block{Hex: block, Weight: before.weight + weight, Application: names.one(cell(c.application)), Line: names.one(cell("source_line")),
			Forwards: cell("self_forwarding_loads") != "" && cell("self_forwarding_loads") != "0"}
		reason := ""
		if b.Cycles, reason = c.cyclesOf(cell); reason != "" {
			t.rejections[b.Hex] = rejection{cmp.Or(before.reason, names.one(reason)), b.Weight}
			continue
		}
		delete(t.rejections, b.Hex)
		seen[b.Hex] = -1
		b.Bound = names.one(cell("bound"))
		b.Low, b.High = b.Cycles, b.Cycles
		if o.cycles == "" { // else the interval and the evidence are of other cycles
			b.Low, b.High = bound(cell("ci_low"), b.Cycles), bound(cell("ci_high"), b.Cycles)
			b.Evidence = names.one(c.evidenceOf(cell))
		}
		seen[b.Hex] = len(t.blocks)
		t.blocks = append(t.blocks, b)
	}
	return nil
}

// weights returns a file's column of weights, "" if each block counts once.
func (t *truth) weights(s resultfile.Schema, asked string) (string, error) {
	const usual = "weight"
	switch {
	case asked == score.Unweighted || asked == "" && s.Index(usual) < 0:
		return "", nil
	case asked != "" && s.Index(asked) < 0:
		return "", fmt.Errorf("-weight %s: it has no such column; there are %q", asked, s.Names())
	}
	t.weight = cmp.Or(asked, usual)
	return t.weight, nil
}

// note records a run's conditions, and refuses a run on another core.
func (t *truth) note(header string) error {
	run, err := resultfile.ParseRun(header)
	if err != nil || run.Host.Microarchitecture == "" {
		return nil // unknown core
	}
	if t.run.Host.Microarchitecture == "" {
		t.run = run
	}
	return t.sameCore(run)
}

// sameCore refuses runs on another core: a model predicts one core.
func (t *truth) sameCore(run resultfile.Run) error {
	here, there := t.run.Host.Microarchitecture, run.Host.Microarchitecture
	if here == there || slices.ContainsFunc([]cpu.Name{here, there}, func(n cpu.Name) bool { return n == "" || n == cpu.Unknown }) {
		return nil
	}
	return fmt.Errorf("it was measured on %s, and the results before it on %s; judge models on each by itself", there, here)
}

// rejected counts unmeasured blocks by reason.
func (t *truth) rejected() map[string]int {
	n := map[string]int{}
	for _, r := range t.rejections {
		n[r.reason]++
	}
	return n
}

// bound parses an end of an interval; without one, it is the value.
func bound(text string, value float64) float64 {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	return value
}

// texts keeps one copy of repeated texts.
type texts map[string]string

func (m texts) one(s string) string {
	if kept, ok := m[s]; ok {
		return kept
	}
	kept := string([]byte(s))
	m[kept] = kept
	return kept
}

func (t *truth) describe() {
	inParallel(len(t.blocks), func(i int) {
		b := &t.blocks[i]
		insts, err := asm.DecodeHex(b.Hex)
		if err != nil {
			return
		}
		b.Instructions, b.Category = len(insts), string(asm.CategoryOf(insts))
		if t.core.Name != "" && b.Bound == "" {
			b.Bound = t.core.Limit(insts, b.Cycles)
		}
	})
}

func (t *truth) hexes() []string {
	list := make([]string, len(t.blocks))
	for i := range t.blocks {
		list[i] = t.blocks[i].Hex
	}
	return list
}

// differs is the largest difference between initial states, as a share, at which a block still counts. In one state, 0.1
// % of blocks differ by more.
const differs = 0.05

// differ reports whether two measurements differ by more than that.
func differ(a, b float64) bool { return math.Abs(a-b) > differs*min(a, b) }

// dropSensitive drops blocks for which files of another initial state disagree.
func (t *truth) dropSensitive(files []string, stdin io.Reader) error {
	other, err := readTruth(files, stdin, truthOptions{sensitive: true, weight: score.Unweighted})
	if err != nil {
		return fmt.Errorf("-other-init: %w", err)
	}
	if err := t.sameCore(other.run); err != nil {
		return fmt.Errorf("-other-init %s: %w", files[0], err)
	}
	if a, b := t.run.Settings["init"], other.run.Settings["init"]; a != nil && a == b {
		return fmt.Errorf("-other-init %s: it was measured in the same initial state, %v; measure one with batch -init distinct", files[0], a)
	}
	cycles := make(map[string]float64, len(other.blocks))
	for _, b := range other.blocks {
		cycles[b.Hex] = b.Cycles
	}
	before := len(t.blocks)
	t.blocks = slices.DeleteFunc(t.blocks, func(b score.Block) bool {
		c, there := cycles[b.Hex]
		if _, rejected := other.rejections[b.Hex]; rejected && b.Forwards {
			return true // without equal pointers its time is unknown
		}
		return there && differ(c, b.Cycles)
	})
	t.sensitive += before - len(t.blocks)
	if len(t.blocks) == 0 {
		return fmt.Errorf("-other-init %s: every block is sensitive to the initial state", files[0])
	}
	return nil
}

// again returns another result's cycles of the same blocks: bbprof as a model of itself.
func (t *truth) again(files []string, stdin io.Reader) (score.Model, error) {
	var list []score.Prediction
	m := score.Model{Name: "bbprof again", Kind: score.Again, Source: files[0]}
	other := &truth{rejections: map[string]rejection{}}
	seen := map[string]int{}
	for _, name := range files {
		if err := other.readFile(name, stdin, truthOptions{sensitive: true, weight: score.Unweighted}, seen); err != nil {
			return m, fmt.Errorf("-again %s: %w", name, err)
		}
		if err := t.sameCore(other.run); err != nil {
			return m, fmt.Errorf("-again %s: %w", name, err)
		}
	}
	for _, b := range t.blocks {
		at, measured := seen[b.Hex]
		_, rejected := other.rejections[b.Hex]
		switch {
		case measured:
			list = append(list, score.Prediction{Cycles: other.blocks[at].Cycles})
		case rejected:
			list = append(list, score.Failed("rejected"))
		default:
			list = append(list, score.Failed("not in "+m.Source))
		}
	}
	m.Predictions = score.Collect(list)
	return m, nil
}
