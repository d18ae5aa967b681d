package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/profiler"
)

// truth holds the measured blocks that models are judged by, each once.
type truth struct {
	truthOptions
	blocks     []score.Block
	at         map[string]int       // index in blocks, or leftOut
	rows       int                  // in the files
	repeated   int                  // of them, with a block seen before
	rejections map[string]rejection // by block, if no row has measured it
	sensitive  int                  // left out: another initial state or row disagrees
	run        resultfile.Run       // the first of several
	core       cpu.Core             // measured on; unnamed if unknown
	weighting  string               // column of weights, or none
}

const leftOut = -1

// rejection is why a block's first row has no measurement, and the weight of all its rows.
type rejection struct {
	reason string
	weight float64
}

type truthOptions struct {
	by         string // column of applications
	cycles     string // column of cycles, "" for the usual one
	named      string // core, if the results do not tell
	weight     string // column of weights, none, or "": column weight if there is one
	again      bool   // keep blocks whose rows disagree: the first counts
	unmeasured bool   // accept files without measured blocks
}

func readTruth(names []string, stdin io.Reader, o truthOptions) (*truth, error) {
	t := newTruth(o)
	for _, name := range names {
		if err := t.readFile(name, stdin); err != nil {
			return nil, err
		}
	}
	t.blocks = slices.DeleteFunc(t.blocks, func(b score.Block) bool { return t.at[b.Hex] == leftOut })
	switch {
	case len(t.blocks) == 0 && o.unmeasured:
	case len(t.blocks) == 0 && t.sensitive > 0:
		return nil, fmt.Errorf("%s: another row gives other cycles for every block; leave the rows of one state", names[0])
	case len(t.blocks) == 0:
		return nil, fmt.Errorf("%s: %s and none holds a measured block", names[0], words.Plural(t.rows, "row"))
	}
	var err error
	if t.core, err = predict.CoreNamed(o.named, string(t.run.Host.Microarchitecture)); err != nil {
		return nil, err
	}
	if !score.Weighted(t.blocks) {
		t.weighting = score.Unweighted
	}
	t.describe()
	return t, nil
}

func newTruth(o truthOptions) *truth {
	return &truth{truthOptions: o, at: map[string]int{}, rejections: map[string]rejection{}, weighting: score.Unweighted}
}

type truthColumns struct {
	hex, cycles, application, weight string
	evidence                         []string
	headless                         bool // the first line is a row, not a header
	status                           bool // column status exists
}

func (t *truth) columns(s resultfile.Schema) (c truthColumns, err error) {
	names := s.Names()
	if len(names) == 0 {
		return c, errors.New("it is empty")
	}
	hex, cycles, headless, err := predict.Columns(names, t.cycles)
	if err != nil {
		return c, err
	}
	c.headless, c.hex, c.cycles, c.status = headless, names[hex], names[cycles], s.Index("status") >= 0
	for _, f := range []struct{ flag, name string }{{"-by", t.by}, {"-weight", t.weight}} {
		if f.name != "" && f.name != score.Unweighted && s.Index(f.name) < 0 {
			return c, fmt.Errorf("%s %s: it has no such column; there are %q", f.flag, f.name, names)
		}
	}
	c.application = t.by
	for _, name := range []string{"application", "app", "program", "source", "file", "column_2", "corpus"} { // batch names the last two
		if c.application == "" && s.Index(name) >= 0 {
			c.application = name
		}
	}
	if name := cmp.Or(t.weight, "weight"); name != score.Unweighted && s.Index(name) >= 0 {
		c.weight, t.weighting = name, name
	}
	c.evidence = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, evidencePrefix) })
	return c, nil
}

// cyclesOf returns a row's cycles, or why it has none.
func (c *truthColumns) cyclesOf(cell func(string) string) (cycles float64, why string) {
	if c.status && cell("status") != "ok" {
		return 0, cmp.Or(cell("reason"), cell("status"))
	}
	if limit := cell("impossible"); limit != "" { // accepted all the same, by -tolerate
		return 0, limit
	}
	text := cell(c.cycles)
	if named := cell(text); named != "" { // loops_take names another column
		text = named
	}
	cycles, err := strconv.ParseFloat(text, 64)
	if err != nil || !(cycles > 0 && cycles <= profiler.MostCycles) {
		return 0, "no cycles"
	}
	return cycles, ""
}

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

func (t *truth) readFile(name string, stdin io.Reader) error {
	in, err := resultfile.OpenRows(name, stdin)
	if err == nil {
		defer in.Close()
	}
	if t.unmeasured && (err != nil || in.Schema.Index("cycles") < 0) {
		return nil // not a result; the reader of blocks reports the error
	}
	if err != nil {
		return err
	}
	c, err := t.columns(in.Schema)
	if err != nil {
		return in.Error(err)
	}
	if c.headless {
		if err := t.add(in.Header(), &c); err != nil {
			return err
		}
	}
	for row, err := range in.All() {
		if err != nil {
			return err
		}
		if err := t.add(row, &c); err != nil {
			return err
		}
	}
	for _, run := range in.Runs.All() {
		if err := t.sameCore(run); err != nil {
			return in.Error(err)
		}
		if t.run.Host.Microarchitecture == "" {
			t.run = run
		}
	}
	return nil
}

// add takes a row: the first of a block that was measured counts, with the weight of all its rows.
func (t *truth) add(row resultfile.Row, c *truthColumns) error {
	t.rows++
	weight, err := row.Weight(c.weight)
	if err != nil {
		return fmt.Errorf("%w; -weight none takes none", err)
	}
	cell := row.Cell
	block, is := predict.Digits(cell(c.hex))
	if !is {
		block = strings.Clone(cell(c.hex))
	}
	cycles, reason := c.cyclesOf(cell)
	before, rejected := t.rejections[block]
	at, known := t.at[block]
	if known || rejected {
		t.repeated++
	}
	switch {
	case known && at == leftOut:
	case known:
		b := &t.blocks[at]
		b.Weight += weight
		if reason == "" && !t.again && differ(cycles, b.Cycles) {
			t.at[block] = leftOut
			t.sensitive++
		}
	case reason != "":
		t.rejections[block] = rejection{cmp.Or(before.reason, kept(reason)), before.weight + weight}
	default:
		delete(t.rejections, block)
		b := score.Block{Hex: block, Cycles: cycles, Low: cycles, High: cycles, Weight: before.weight + weight,
			Application: kept(cell(c.application)), Line: kept(cell("source_line")), Bound: kept(cell("bound")),
			Forwards: cell("self_forwarding_loads") != "" && cell("self_forwarding_loads") != "0"}
		if t.cycles == "" { // else the interval and the evidence are of other cycles
			b.Low, b.High = bound(cell("ci_low"), cycles), bound(cell("ci_high"), cycles)
			b.Evidence = kept(c.evidenceOf(cell))
		}
		t.at[block] = len(t.blocks)
		t.blocks = append(t.blocks, b)
	}
	return nil
}

// kept returns a repeated text that outlives its row.
func kept(text string) string { return unique.Make(text).Value() }

// sameCore refuses runs on another core: a model predicts one core.
func (t *truth) sameCore(run resultfile.Run) error {
	here, there := t.run.Host.Microarchitecture, run.Host.Microarchitecture
	if here == there || slices.ContainsFunc([]cpu.Name{here, there}, func(n cpu.Name) bool { return n == "" || n == cpu.Unknown }) {
		return nil
	}
	return fmt.Errorf("it was measured on %s, and the results before it on %s; judge models on each by itself", there, here)
}

func (t *truth) rejected() map[string]int {
	n := map[string]int{}
	for _, r := range t.rejections {
		n[r.reason]++
	}
	return n
}

// bound parses an end of an interval; without one, it is the value.
func bound(text string, value float64) float64 {
	if v, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(v) <= profiler.MostCycles {
		return v
	}
	return value
}

// describe adds to each block what follows from its bytes.
func (t *truth) describe() {
	var working sync.WaitGroup
	for part := range slices.Chunk(t.blocks, 1+len(t.blocks)/runtime.NumCPU()) {
		working.Go(func() {
			for i := range part {
				b := &part[i]
				insts, err := asm.DecodeHex(b.Hex)
				if err != nil {
					continue
				}
				b.Instructions, b.Category = len(insts), string(asm.CategoryOf(insts))
				if t.core.Name != "" && b.Bound == "" {
					b.Bound = predict.Limit(t.core, insts, b.Cycles)
				}
			}
		})
	}
	working.Wait()
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

func differ(a, b float64) bool { return math.Abs(a-b) > differs*min(a, b) }

// dropSensitive drops blocks for which files of another initial state disagree.
func (t *truth) dropSensitive(files []string, stdin io.Reader) error {
	other, err := t.other("other-init", files, stdin)
	if err != nil {
		return err
	}
	if a, b := t.run.Settings["init"], other.run.Settings["init"]; a != nil && a == b {
		return fmt.Errorf("-other-init %s: it was measured in the same initial state, %v; measure one with batch -init distinct", files[0], a)
	}
	before := len(t.blocks)
	t.blocks = slices.DeleteFunc(t.blocks, func(b score.Block) bool {
		if _, rejected := other.rejections[b.Hex]; rejected && b.Forwards {
			return true // without equal pointers its time is unknown
		}
		i, there := other.at[b.Hex]
		return there && differ(other.blocks[i].Cycles, b.Cycles)
	})
	t.sensitive += before - len(t.blocks)
	if len(t.blocks) == 0 {
		return fmt.Errorf("-other-init %s: every block is sensitive to the initial state", files[0])
	}
	return nil
}

// measuredAgain returns another result's cycles of the same blocks: bbprof as a model of itself.
func (t *truth) measuredAgain(files []string, stdin io.Reader) (score.Model, error) {
	m := score.Model{Name: "bbprof again", Kind: score.Again, Source: files[0]}
	other, err := t.other("again", files, stdin)
	if err != nil {
		return m, err
	}
	for _, b := range t.blocks {
		p := score.Failed("not in " + m.Source)
		if i, measured := other.at[b.Hex]; measured {
			p = score.Prediction{Cycles: other.blocks[i].Cycles}
		} else if _, rejected := other.rejections[b.Hex]; rejected {
			p = score.Failed("rejected")
		}
		m.Predictions = append(m.Predictions, p)
	}
	return m, nil
}

// other reads a result of a flag, which is to be from the same core.
func (t *truth) other(flag string, files []string, stdin io.Reader) (*truth, error) {
	other := newTruth(truthOptions{again: true, weight: score.Unweighted})
	for _, name := range files {
		err := other.readFile(name, stdin)
		if err == nil {
			err = t.sameCore(other.run)
		}
		if err != nil {
			return nil, fmt.Errorf("-%s %s: %w", flag, name, err)
		}
	}
	return other, nil
}
