package instructions

import (
	"regexp"
	"strings"
)

// Cause is why two tables have a number otherwise.
type Cause string

// What each says was measured: here, or by others.
const (
	OtherOperands Cause = "another pair of operands, or other values: so measured, as there"
	OneUnit       Cause = "a chain through two units of 512 bits: through one alone, as there"
	OtherBlock    Cause = "another block, or by the decoders: so measured, as there"
	ShortRow      Cause = "a row that fills the schedulers: in a short one, as there"
	TwoUnits      Cause = "512 bits: two units here, one there"
	Witness       Cause = "another of the tables has what was measured here"
	Disturbed     Cause = "other widths of the instruction agree there: the clock changed"
	Unknown       Cause = "not known"
)

// Causes are all, in the order in which they are looked for.
func Causes() []Cause {
	return []Cause{OtherOperands, OneUnit, OtherBlock, ShortRow, TwoUnits, Witness, Disturbed, Unknown}
}

// Explain finds the causes of what agreements with published tables, each compared with the same, list.
func Explain(agreements []Agreement) {
	for i := range agreements {
		a := &agreements[i]
		if !a.published {
			continue
		}
		oneUnit := a.oneUnit()
		widths := map[string]bool{}
		for number := range a.agreed {
			widths[widthless(number)] = true
		}
		for k := range a.Differ {
			d := &a.Differ[k]
			number := d.What + " " + d.Form
			switch way, _, _ := strings.Cut(d.Other, ": "); {
			case strings.Contains(way, besideKands) || isOtherway(way):
				d.Cause = OtherBlock
			case strings.HasSuffix(way, shortRow):
				d.Cause = ShortRow
			case strings.Contains(way, " beside "):
				d.Cause = OneUnit
			case d.Other != "":
				d.Cause = OtherOperands
			case oneUnit && d.What != latencyMode && strings.Contains(d.Form, "zmm") && twice(d.Here, d.There):
				d.Cause = TwoUnits
			case witnessed(agreements, i, number), witnessed(agreements, i, strings.Replace(number, "{evex} ", "", 1)):
				d.Cause = Witness
			case widths[widthless(number)] && near(d.Here, d.There, clockShare):
				d.Cause = Disturbed
			default:
				d.Cause = Unknown
			}
		}
	}
}

func isOtherway(text string) bool {
	for _, way := range otherways {
		if strings.HasSuffix(text, way.note) {
			return true
		}
	}
	return false
}

func witnessed(agreements []Agreement, but int, number string) bool {
	for i := range agreements {
		if i != but && agreements[i].published && agreements[i].agreed[number] {
			return true
		}
	}
	return false
}

// clockShare is by how much a clock may have changed in the time of a line: texts have lines of whose latency and
// throughput are both off by up to 11 %, most by 3 to 5 %.
const clockShare = 0.05

var width = regexp.MustCompile(`\b(?:[xyz]mm|r(?:8|16|32|64))\b`)

// widthless is a number with its form for registers of any width.
func widthless(number string) string { return width.ReplaceAllString(number, "r") }

// oneUnit reports whether the other core has one unit for a multiplication and addition of 512 bits, and this one two.
func (a *Agreement) oneUnit() bool {
	for _, d := range a.Differ {
		if d.Form == "vfmadd132pd zmm, zmm, zmm" && d.What != latencyMode {
			return twice(d.Here, d.There)
		}
	}
	return false
}

func twice(here, there float64) bool { return near(there, 2*here, throughputShare) }
