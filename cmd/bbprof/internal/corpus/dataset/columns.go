package dataset

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/docs"
)

type Column struct {
	Name  string          `json:"name"`
	Type  resultfile.Type `json:"type"`
	Unit  string          `json:"unit,omitempty"`
	About string          `json:"about"`
}

const cyclesUnit = "core cycles per iteration of the block"

func explained(s resultfile.Schema) (all []Column) {
	about := map[string]string{
		splitColumn:       "train, validation or test; left_out where a near-duplicate of the block is in another split; null of a block without cycles",
		applicationColumn: "the application of the block, which the split goes by",
	}
	for _, page := range []string{docs.Extract, docs.Reference} {
		for names, text := range tableRows(page) {
			about[names] = text
		}
	}
	for _, c := range s {
		e := Column{c.Name, c.Type, "", about[c.Name]}
		base := strings.TrimPrefix(c.Name, "input_")
		if e.About == "" {
			e.About = strings.TrimSuffix("as it was in the corpus: "+about[base], ": ")
		}
		if base == "cycles" || strings.HasSuffix(base, "_cycles") || strings.HasSuffix(base, "ci_low") || strings.HasSuffix(base, "ci_high") {
			e.Unit = cyclesUnit
		}
		all = append(all, e)
	}
	return all
}

var quoted = regexp.MustCompile("`([a-z0-9_]+)`")

// tableRows parses a page's tables of columns: it maps each name in the first cell to the last cell, whose text
// needs no other page.
func tableRows(page string) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) < 2 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			if rows[m[1]] == "" {
				rows[m[1]] = strings.TrimSpace(docs.Alone(cells[len(cells)-1]))
			}
		}
	}
	return rows
}

// shape describes what all cells of a carried column have in common.
type shape struct{ filled, notInteger, notReal, notFlag bool }

func (s *shape) add(cell string) {
	if cell == "" {
		return
	}
	s.filled = true
	n, err := strconv.ParseInt(cell, 10, 64)
	s.notInteger = s.notInteger || err != nil || strconv.FormatInt(n, 10) != cell // 007 is a name
	_, plain := canonical(cell)
	s.notReal = s.notReal || !plain
	s.notFlag = s.notFlag || cell != "true" && cell != "false"
}

func (s *shape) typed() resultfile.Type {
	switch {
	case !s.filled:
		return resultfile.Text
	case !s.notInteger:
		return resultfile.Integer
	case !s.notReal:
		return resultfile.Number
	case !s.notFlag:
		return resultfile.Flag
	}
	return resultfile.Text
}

// decimal matches numbers as programs print them; not names such as 1_000, 0x1p4, inf or 007.
var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// canonical formats a number as it is read back from Parquet.
func canonical(cell string) (string, bool) {
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil || !decimal.MatchString(cell) {
		return cell, false
	}
	return strconv.FormatFloat(v, 'g', -1, 64), true
}
