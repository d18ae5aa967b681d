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

// Setup is what surrounds a block while it is measured: where code and data stand, and how
// they are repeated. A Profiler measures one block in many set-ups, without a restart in
// between. Nothing in it is random: equal set-ups are equal to the byte. The zero value is what
// the Profiler's Options say.
type Setup struct {
	// At is the address at which the block stands in its program: its rip-relative operands keep
	// their place within a page. nil is an address that is not known: they are placed so that each is aligned as its width wants.
	At *uint64 `json:"at,omitempty"`
	// CodeOffset is where the first copy of both images stands, in bytes from the start of a
	// page, 0 to 4095. nil lets successive replicates take four places, each at a multiple of 64.
	// Up to 63 bytes of it are nops after the loop before the copies; they run once a run.
	CodeOffset *int `json:"code_offset,omitempty"`
	// LeadNops is how many nops these are, 15 to 64, in 64 bytes more. Whatever their number, the code stays at its
	// place in a line, and it meets the groups that the core renames elsewhere. 0 is as few as there can be.
	LeadNops int `json:"lead_nops,omitempty"`
	// Init is the one initial state, instead of those that Options name and allow. Options.Set does not
	// change it.
	Init *initial.State `json:"init,omitempty"`
	// Set is as in Options, of which it replaces what it names.
	Set initial.Set `json:"set,omitempty"`
	// Captured is the state of a program to start from, instead of any other: registers, the pages that the block
	// touches, and the block's address, to which its rip-relative operands are relative. Of what else says how
	// memory and registers start, nothing holds then.
	Captured *initial.Captured `json:"-"`
	// Visit names the captured state, such as by its program, file and number. The result repeats it.
	Visit string `json:"visit,omitempty"`
	// Frames, Unroll, NoFTZ, FrontEnd, Mode, Branch and Copies as in Options.
	Frames   int             `json:"frames,omitempty"`
	Unroll   *unroll.Factors `json:"unroll,omitempty"`
	NoFTZ    bool            `json:"no_ftz,omitempty"`
	FrontEnd FrontEnd        `json:"frontend,omitempty"`
	Mode     Mode            `json:"mode,omitempty"`
	Branch   Branch          `json:"branch,omitempty"`
	Copies   int             `json:"bodies,omitempty"`
	// FewCopies keeps a block that executes as fast as the core dispatches to the copies that the front end serves ahead of
	// time: what is measured is then what dispatch and execution take, whether or not the front end could keep up in a loop.
	FewCopies bool `json:"few_copies,omitempty"`
	// NoMapping maps no page: a block that touches memory crashes.
	NoMapping bool `json:"no_mapping,omitempty"`
	// Tolerate adds to Options.Tolerate.
	Tolerate []verdict.Reason `json:"tolerate,omitempty"`
}

// 64 to 127 bytes are leastLeadNops of the longest nops, 9 bytes, or mostLeadNops of the shortest.
const leastLeadNops, mostLeadNops = 15, 64

// Check refuses what no block can be set up with.
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

// over gives the options with which to measure a block in this set-up.
func (s Setup) over(o Options) Options {
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

// job is a block with the options and the initial states that its set-up makes of the session's.
func (s *session) job(b Block) job {
	j := job{Block: b, Options: b.Setup.over(s.opts), states: slices.Clone(s.states)}
	if s.opts.Init == initial.BHive {
		j.Frames = max(j.Frames, 1)
		if j.Unroll == nil {
			j.Unroll = unroll.BHive(len(b.Code))
		}
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
