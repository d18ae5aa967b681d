package profiler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Setup is the environment of a block during its measurement: placement of code and data, and
// repetition. A Profiler measures blocks in different set-ups without a restart. Nothing in it is
// random: equal set-ups are equal to the byte. The zero value uses the Profiler's Options.
type Setup struct {
	// Address is the block's address in its program: rip-relative operands keep their offset in a page.
	// nil: the address is unknown, and each operand is aligned to its width.
	Address *uint64 `json:"at,omitempty"`
	// CodeOffset is the offset of the first copy of both images in its page, 0 to 4095 bytes. nil:
	// successive replicates use four places in a cache line. Up to 63 bytes of it are nops after
	// the loop before the copies, which execute once per run.
	CodeOffset *int `json:"code_offset,omitempty"`
	// LeadNops is the number of these nops, 15 to 64, in 64 bytes more. It shifts the code relative to the rename
	// groups but not within its cache lines. 0: as few as possible.
	LeadNops int `json:"lead_nops,omitempty"`
	// SameCode sets registers and flags by the same instructions whatever their values. Shorter ones for small values shift the copies relative
	// to the rename groups: on Zen 3 a register of more than 32 bits then seemed to cost a loop 5 %.
	SameCode bool `json:"same_code,omitempty"`
	// Init is the only initial state, instead of those of Options. Options.Set does not change it.
	Init *initial.State `json:"init,omitempty"`
	// Set overrides the entries of Options.Set that it names.
	Set initial.Set `json:"set,omitempty"`
	// Captured is the state of a program in which to start: registers, the pages that the block touches, and the
	// block's address, to which its rip-relative operands are relative. It replaces all other initial values of
	// memory and registers.
	Captured *initial.Captured `json:"-"`
	// Visit identifies the captured state, such as by program, file and number. The result repeats it.
	Visit string `json:"visit,omitempty"`
	// Frames, Unroll, NoFTZ, FrontEnd, Mode, Branch and Copies as in Options.
	Frames   int             `json:"frames,omitempty"`
	Unroll   *unroll.Factors `json:"unroll,omitempty"`
	NoFTZ    bool            `json:"no_ftz,omitempty"`
	FrontEnd FrontEnd        `json:"frontend,omitempty"`
	Mode     Mode            `json:"mode,omitempty"`
	Branch   Branch          `json:"branch,omitempty"`
	Copies   int             `json:"bodies,omitempty"`
	// NoMapping maps no page: a block that touches memory crashes.
	NoMapping bool `json:"no_mapping,omitempty"`
	// Tolerate adds to Options.Tolerate.
	Tolerate []verdict.Reason `json:"tolerate,omitempty"`
}

// 64 to 127 bytes are leastLeadNops of the longest nops, 9 bytes, or mostLeadNops of the shortest.
const leastLeadNops, mostLeadNops = 15, 64

// Check rejects invalid set-ups.
func (s Setup) Check() error {
	switch {
	case s.CodeOffset != nil && (*s.CodeOffset < 0 || *s.CodeOffset >= layout.PageSize):
		return fmt.Errorf("code offset %d is not within a page of %d bytes", *s.CodeOffset, layout.PageSize)
	case s.LeadNops != 0 && (s.LeadNops < leastLeadNops || s.LeadNops > mostLeadNops):
		return fmt.Errorf("%d nops before the first copy: there are %d to %d", s.LeadNops, leastLeadNops, mostLeadNops)
	case s.Captured != nil:
		if err := s.Captured.Check(); err != nil {
			return err
		}
	}
	return Options{Frames: s.Frames, Unroll: s.Unroll, FrontEnd: s.FrontEnd, Mode: s.Mode, Branch: s.Branch, Copies: s.Copies}.Check()
}

// override returns the options with which to measure a block in this set-up.
func (s Setup) override(o Options) Options {
	if s.Frames > 0 {
		o.Frames = s.Frames
	}
	if s.Unroll != nil {
		o.Unroll = s.Unroll
	}
	o.NoFTZ = o.NoFTZ || s.NoFTZ
	o.FrontEnd = cmp.Or(s.FrontEnd, o.FrontEnd)
	o.Mode = cmp.Or(s.Mode, o.Mode)
	o.Branch, o.Copies = cmp.Or(s.Branch, o.Branch), cmp.Or(s.Copies, o.Copies)
	o.Tolerate = slices.Concat(o.Tolerate, s.Tolerate)
	return o
}

// job combines a block's set-up with the session's options and initial states.
func (s *session) job(b Block) job {
	j := job{Block: b, Options: b.Setup.override(s.opts), states: slices.Clone(s.states)}
	if s.opts.Init == initial.BHive {
		j.Frames = max(j.Frames, 1)
		if j.Unroll == nil {
			j.Unroll = unroll.BHive(len(b.Code))
		}
	}
	if j.Mode == Hot && (j.Unroll != nil || j.Options.FrontEnd == Decode) {
		j.Mode = Unroll
	}
	if c := b.Setup.Captured; c != nil {
		j.states = []initial.State{c.Start()}
		return j
	}
	set := j.Options.Set.With(b.Setup.Set)
	if init := b.Setup.Init; init != nil {
		j.states, set = []initial.State{*init}, b.Setup.Set
	}
	for i := range j.states {
		if j.NoFTZ {
			j.states[i].MXCSR = initial.DefaultMXCSR
		}
		j.states[i] = set.Over(j.states[i])
		if b.Setup.Init == nil {
			j.states[i].Memory = j.Options.Memory
		}
	}
	return j
}
