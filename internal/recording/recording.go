// Package recording holds a core's raw readings: those of the clock, the contention probe and the calibration chains
// at each start, and every timed run of some known blocks. A user attaches one to a report. Tests replay it through
// the code for live readings, so that each rule of timing is tested on every recorded core.
package recording

import (
	"encoding/json"
	"io"
)

const version = 2

// Recording is a core's raw readings, written as JSON. All times are in ticks.
type Recording struct {
	Version        int         `json:"bbprof_recording"`
	CPU            CPU         `json:"cpu"`
	Registers      []Registers `json:"cpuid"`
	Step           float64     `json:"step"` // of the clock
	TicksPerSecond float64     `json:"ticks_per_second"`
	Iterations     int         `json:"probe_iterations"` // of 64 adds, in the contention probe
	Nops           bool        `json:"probe_nops"`       // each has nops, too
	Code           string      `json:"code"`             // hash of the code that is timed: probe, chains, samplers
	Starts         []Start     `json:"starts"`
	Blocks         []Block     `json:"blocks"`

	// Next is the template of the next block's timings, without images and windows.
	Next     Block `json:"-"`
	starting bool
}

type CPU struct {
	Vendor   string `json:"vendor"`
	Family   int    `json:"family"`
	Model    int    `json:"model"`
	Stepping int    `json:"stepping"`
	Core     string `json:"core"` // bbprof's name
}

// Registers is an answer of CPUID.
type Registers struct{ Leaf, Subleaf, EAX, EBX, ECX, EDX uint32 }

// SameAnswer reports whether two subleaves have equal registers, as those of a leaf without subleaves do.
func (c Registers) SameAnswer(d Registers) bool {
	return c.EAX == d.EAX && c.EBX == d.EBX && c.ECX == d.ECX && c.EDX == d.EDX
}

type Start struct {
	Note   string     `json:"note,omitempty"`
	Tries  [][]Sample `json:"tries"`
	Bursts []uint64   `json:"bursts"` // of stores
}

// Sample is a reading each of the contention probe, of the two chains of adds, and of those of multiplies.
type Sample [5]uint64

type Block struct {
	Code    []byte   `json:"code"`
	Low     float64  `json:"low"` // cycles per iteration; both 0 if unknown
	High    float64  `json:"high"`
	Short   int      `json:"short"` // iterations of its images
	Long    int      `json:"long"`
	Windows []Window `json:"windows"`
}

type Window struct {
	Replicate int        `json:"replicate"`
	Layout    int        `json:"layout"`
	Switched  bool       `json:"switched,omitempty"` // a context switch came between
	Probe     uint64     `json:"probe,omitempty"`
	Chains    []uint64   `json:"chains,omitempty"` // empty if it was disturbed
	Runs      [][]uint64 `json:"runs,omitempty"`   // of short, long, short, long
}

// Write writes the recording uncompressed.
func (r *Recording) Write(to io.Writer) error {
	r.Version = version
	return json.NewEncoder(to).Encode(r)
}
