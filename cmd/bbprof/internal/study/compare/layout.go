// Package compare tells whether one piece of code is faster than another, and not only in the one
// place where both happened to be put. What surrounds code moves its speed by more than many a
// change to it (Mytkowicz, Diwan, Hauswirth and Sweeney, "Producing Wrong Data Without Doing
// Anything Obviously Wrong!", ASPLOS 2009), so both sides are measured in many layouts drawn at
// random, the same for both, and what is tested are the differences layout by layout.
//
// Where nothing else is said, whoever calls it measures.
package compare

import "math/rand/v2"

const (
	// Page is the range of a random start, as in the linker whose way this follows.
	Page = 4096
	// CodeUnit is what code is moved by, in bytes: the alignment that compilers give functions on
	// x86-64, and so what a change elsewhere in a program moves them by.
	CodeUnit = 16
	// DataUnit is what data are moved by: a cache line. A smaller step would put accesses across
	// lines that were not, which is another block to measure and not another place for it.
	DataUnit = 64
	// paddingSites are the places before the code at which there may be padding: as if a page full
	// of short functions, a line each, stood before it.
	paddingSites = Page / 64
	// paddingOdds is how many of them have none for each that has: lld's option
	// --randomize-section-padding pads a section with a probability of 1/16 by its alignment and
	// starts a segment anywhere in a page (llvm-project, pull request 117653).
	paddingOdds = 16
)

// Layout is one set-up in which both sides are measured: of blocks, where code and data are; of
// programs, what stands above the stack.
type Layout struct {
	Number  int `json:"number"`                 // from 1
	Start   int `json:"start_bytes,omitzero"`   // of the code in its page
	Padding int `json:"padding_bytes,omitzero"` // before the code, beyond that
	Data    int `json:"data_bytes,omitzero"`    // by which all data are moved
	Env     int `json:"env_bytes,omitzero"`     // by which a program's environment is longer
	Stack   int `json:"stack_bytes,omitzero"`   // by which its stack starts lower besides
	// BFirst says of each trial whether b ran before a; of programs nobody is told.
	BFirst []bool `json:"b_first,omitempty"`
}

// Code is where in a page the code begins, in bytes.
func (l Layout) Code() int { return (l.Start + l.Padding) % Page }

// Draw makes n layouts for blocks, for so many trials each. Layout i of a seed does not depend on n.
func Draw(seed uint64, n, trials int) []Layout {
	layouts := make([]Layout, n)
	for i := range layouts {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		l := Layout{Number: i + 1, Start: CodeUnit * r.IntN(Page/CodeUnit)}
		for range paddingSites {
			if r.IntN(paddingOdds) == 0 {
				l.Padding += CodeUnit
			}
		}
		l.Data = DataUnit * r.IntN(Page/DataUnit)
		for range trials {
			l.BFirst = append(l.BFirst, r.IntN(2) == 0)
		}
		layouts[i] = l
	}
	return layouts
}
