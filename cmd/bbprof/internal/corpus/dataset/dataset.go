// Package dataset seals results: it writes them to a directory with everything that others need to trust them, and
// verifies such a directory. SHA256SUMS lists every file with its hash, in the format of sha256sum(1). Everything
// else is verified against the rows: BHive's files, the datasheet's counts and the split are derived again, so
// recomputing a sum hides nothing.
package dataset

import (
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
)

// The files of a dataset, besides its parts.
const (
	SumsFile       = "SHA256SUMS"
	SheetFile      = "datasheet.json"
	BHiveFile      = "bhive.csv"
	CategoriesFile = "categories.csv"
	WeightsFile    = "weights.csv"
	ReadmeFile     = "README.md"
)

// The columns that a dataset adds to the results.
const (
	applicationColumn = "application"
	splitColumn       = "split"
)

type Sheet struct {
	Made     string   `json:"made"`
	Sealed   string   `json:"sealed_with"` // bbprof's version
	Inputs   []string `json:"inputs"`
	Repeated int      `json:"repeated_rows_left_out"` // their blocks are in earlier rows

	Hosts     []resultfile.Host `json:"hosts"`
	Kernels   []string          `json:"kernels"`
	Versions  []string          `json:"versions"` // that measured
	Clocks    []string          `json:"clocks"`
	Selftests []string          `json:"selftests_at_start"`
	Controls  []string          `json:"controls,omitempty"` // known blocks measured between the rows, of completed runs
	Settings  map[string]any    `json:"settings"`
	Runs      []string          `json:"runs"` // all values of column run

	ApplicationColumn string            `json:"application_column,omitempty"`
	WeightColumn      string            `json:"weight_column,omitempty"`
	Applications      map[string]string `json:"applications,omitempty"` // split of each application; empty: split by near-duplicates alone
	Uneven            string            `json:"uneven_split,omitempty"` // how far the split is from the intended one

	Columns []Column   `json:"columns"` // of the parts
	Parts   []Part     `json:"parts"`
	Content string     `json:"content_sha256"`
	Counts  Counts     `json:"counts"`
	Sample  *Agreement `json:"sample,omitempty"`
}

// captured reports whether the blocks started from a program's states.
func (s *Sheet) captured() bool { return s.Settings["init"] == initial.CapturedName }

type Part struct {
	File   string `json:"file"`
	Rows   int    `json:"rows"`
	SHA256 string `json:"sha256"`
}

type Counts struct {
	Rows       int            `json:"rows"`
	Status     map[string]int `json:"status"`
	Reasons    map[string]int `json:"reasons,omitempty"`
	Several    int            `json:"with_several_speeds"`
	Categories map[string]int `json:"categories"` // of accepted blocks, by split
	Splits     map[string]int `json:"splits"`
}

// tally processes all rows of a dataset in order.
type tally struct {
	at      resultfile.Positions
	counts  Counts
	content hash.Hash
	bhive   resultfile.Writer
	lists   []list
	splits  map[string]list // with headers
	sample  []SampleBlock
}

// list is a file with some columns of the accepted blocks.
type list struct {
	columns []string
	out     *csv.Writer
}

type SampleBlock struct {
	Hex     string
	Cycles  float64
	Address string // as in its column
}

// newTally derives files from the rows; open creates them.
func newTally(s resultfile.Schema, weight string, open func(name string) io.Writer) (*tally, error) {
	t := &tally{at: s.Positions(), content: sha256.New(), splits: map[string]list{}, counts: Counts{
		Status: map[string]int{}, Reasons: map[string]int{}, Categories: map[string]int{}, Splits: map[string]int{}}}
	err := s.Require("hex", "status", "reason", "cycles", "speeds", "category", "run", "set", applicationColumn, splitColumn, weight)
	if err != nil {
		return nil, err
	}
	if t.bhive, err = resultfile.NewWriter(open(BHiveFile), resultfile.BHive, s); err != nil {
		return nil, err
	}
	t.lists = []list{{[]string{"hex", "category"}, csv.NewWriter(open(CategoriesFile))}}
	if weight != "" {
		t.lists = append(t.lists, list{[]string{"hex", weight}, csv.NewWriter(open(WeightsFile))})
	}
	columns := []string{"hex"}
	for _, name := range []string{"cycles", "ci_low", "ci_high", "row_cycles", "loops_take", "speeds", "self_forwarding_loads", "category",
		applicationColumn, weight} {
		if s.Index(name) >= 0 && !slices.Contains(columns, name) {
			columns = append(columns, name)
		}
	}
	columns = append(columns, tokensColumn)
	for _, split := range []string{Train, Validation, Test} {
		l := list{columns, csv.NewWriter(open(split + ".csv"))}
		l.out.Write(columns) // errors persist until close
		t.splits[split] = l
	}
	return t, nil
}

func (t *tally) add(cells []string) error {
	cell := func(name string) string { return t.at.Cell(cells, name) }
	t.counts.Rows++
	t.counts.Status[cell("status")]++
	if r := cell("reason"); r != "" {
		t.counts.Reasons[r]++
	}
	fmt.Fprintf(t.content, "%s,%s,%s,%s,%s,%s\n", cell("hex"), cell("set"), cell("status"), cell("reason"), cell("cycles"), cell(splitColumn))
	if cell("status") != string(profiler.OK) {
		return nil
	}
	if s := cell("speeds"); s != "" && s != "1" {
		t.counts.Several++
	}
	t.counts.Categories[cell("category")]++
	t.counts.Splits[cell(splitColumn)]++
	if inSample(cell("hex")) && cell("set") == "" {
		cycles, _ := strconv.ParseFloat(cell("cycles"), 64) // the reader has checked it
		t.sample = append(t.sample, SampleBlock{Hex: cell("hex"), Cycles: cycles, Address: cell(input.AddressColumn)})
	}
	lists := t.lists
	if l, ok := t.splits[cell(splitColumn)]; ok {
		lists = append(slices.Clip(lists), l)
	}
	for _, l := range lists {
		row := make([]string, len(l.columns))
		for i, name := range l.columns {
			if name == tokensColumn { // replaces a corpus column of that name
				row[i] = tokens(cell("hex"))
			} else {
				row[i] = cell(name)
			}
		}
		l.out.Write(row)
	}
	return t.bhive.Write(cells)
}

func (t *tally) close() error {
	for _, l := range slices.AppendSeq(slices.Clone(t.lists), maps.Values(t.splits)) {
		if l.out.Flush(); l.out.Error() != nil {
			return l.out.Error()
		}
	}
	return t.bhive.Close()
}

// sampled returns the blocks to measure again, always the same ones.
func (t *tally) sampled(s *Sheet) []SampleBlock {
	if s.captured() { // the rows do not hold the states
		return nil
	}
	hash := func(m SampleBlock) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(m.Hex))) }
	slices.SortFunc(t.sample, func(a, b SampleBlock) int { return strings.Compare(hash(a), hash(b)) })
	return t.sample[:min(len(t.sample), mostSampled)]
}

func (t *tally) sum() string { return fmt.Sprintf("%x", t.content.Sum(nil)) }

// sampleOf selects one block in a hundred, and mostSampled at most: a minute's work.
const (
	sampleOf    = 100
	mostSampled = 2000
)

// inSample depends only on the block, so the same blocks are chosen everywhere.
func inSample(block string) bool {
	sum := sha256.Sum256([]byte("sample " + block))
	return (int(sum[0])<<8|int(sum[1]))%sampleOf == 0
}

type Agreement struct {
	Host     resultfile.Host `json:"host"`
	Blocks   int             `json:"blocks"`
	Rejected int             `json:"not_accepted_again"`
	Within1  float64         `json:"share_within_1_percent"`
	Within5  float64         `json:"share_within_5_percent"`
	Median   float64         `json:"median_difference"`
	P95      float64         `json:"p95_difference"`
}

// Compare compares a second measurement with the first; second lacks blocks that were not accepted.
func Compare(here resultfile.Host, sample []SampleBlock, second map[string]float64) Agreement {
	a := Agreement{Host: here, Blocks: len(sample)}
	var differences []float64
	for _, m := range sample {
		cycles, ok := second[m.Hex]
		if !ok {
			a.Rejected++
			continue
		}
		d := max(cycles-m.Cycles, m.Cycles-cycles) / max(m.Cycles, 1e-9)
		differences = append(differences, d)
		if d <= 0.01 {
			a.Within1++
		}
		if d <= 0.05 {
			a.Within5++
		}
	}
	if n := len(differences); n > 0 {
		slices.Sort(differences)
		a.Within1, a.Within5 = a.Within1/float64(n), a.Within5/float64(n)
		a.Median, a.P95 = differences[n/2], differences[min(n-1, n*95/100)]
	}
	return a
}

// agreeing is the share of accepted blocks that must be within 5 %, and of the sample that must be accepted again.
// Two runs on one idle machine agree within 1 % for 99 of 100 (docs/method.md).
const agreeing = 0.95

// Agrees reports whether the second measurement confirms the first.
func (a Agreement) Agrees() bool {
	return a.Blocks > 0 && a.Within5 >= agreeing && float64(a.Blocks-a.Rejected) >= agreeing*float64(a.Blocks)
}
