package mapping

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Region is a loop of a program that runs as it stands, in place of copies: the longer image from the captured state,
// the shorter one from the state some iterations later, both until control leaves the loop.
type Region struct {
	harness.Region
	Walked Walk
	start  map[int]initial.State // by the iterations that are left
	first  map[int]int           // entry of the list of words to restore
}

// Walk is what single steps saw of a loop from the captured state to its end.
type Walk struct {
	Iterations int // arrivals at the header, with the first
	Steps      int // instructions
	Branches   []Branched
	accesses   []asm.Access // Copy is the iteration
	reached    []reached    // by iteration
	missed     int          // instruction whose accesses single steps do not see, -1 if there is none
}

// Branched counts how often a conditional branch was taken, of how many times.
type Branched struct{ Index, Taken, Of int }

type reached struct {
	regs  tracee.Regs
	steps int // before it
}

// from returns the harness of the image that runs so many iterations.
func (r *Region) from(iterations int, h harness.Harness) harness.Harness {
	h.Init, h.Reset.First = r.start[iterations], r.first[iterations]
	return h
}

const (
	// LeastSteps is the least number of instructions between the images of a loop that runs as it stands. Both enter and leave it alike.
	LeastSteps = 64
	// The shorter image runs shortSteps instructions or more, but not more than one iteration of ShortShare: it is left out of the mean.
	shortSteps = 128
	ShortShare = 4
	// walkLimit is CPU time: 18 µs an instruction (see tracee.Step).
	walkLimit = 4 * time.Second
)

// PrepareRegion maps a loop, traces it to its end, and lays it out from the captured state and from a later one.
// offsets are where XSAVE puts its components.
func (t Task) PrepareRegion(c *initial.Captured, offsets [32]int) (*MappedBlock, error) {
	m, im, err := t.mapRegion(c)
	if err != nil {
		return m, err
	}
	final := m.frames()
	if m.Region.Walked, err = m.walk(im, nil); err != nil {
		return m, err
	}
	if m.Factors, err = m.Region.Walked.factors(); err != nil {
		return m, err
	}
	later, pages, err := m.after(im, m.Factors.Long-m.Factors.Short, offsets)
	if err != nil {
		return m, err
	}
	if err := m.startBoth(c.Start(), later.Start()); err != nil {
		return m, err
	}
	if err := m.restoreBoth(pages, final); err != nil {
		return m, err
	}
	if err := m.traceWalked(); err != nil {
		return m, err
	}
	if m.Short, m.Long, err = m.pair(m.Images, 0); err != nil {
		return m, err
	}
	m.Findings, err = t.Check(m)
	return m, err
}

// mapRegion runs the loop to its end on the captured pages, in a dry run of the image that it returns.
func (t Task) mapRegion(c *initial.Captured) (m *MappedBlock, im harness.Image, err error) {
	t, arena, plan, err := t.from(c)
	m = &MappedBlock{Plan: plan, task: t}
	if err != nil {
		return m, im, err
	}
	offset := int(c.Address % layout.PageSize)
	m.ImageBuilder = ImageBuilder{arena, t.Program, t.Harness, &offset}
	if im, err = m.dryRun(0); err != nil {
		return m, im, err
	}
	m.Mapping, err = mapPages(arena.Child, plan, im)
	if left := (*Left)(nil); errors.As(err, &left) {
		err = &verdict.Rejection{Reason: verdict.LeavesState, Inst: left.Why.Inst, Address: left.Why.Address, Detail: fmt.Sprintf(
			"the loop leaves the captured state before its end: %s: %s", left.Why.Reason, left.Why.Detail)}
	}
	return m, im, err
}

// factors returns how many iterations the images run, or why too few are left.
func (w *Walk) factors() (unroll.Factors, error) {
	short := 1
	for short < w.Iterations/ShortShare && w.Steps-w.reached[w.Iterations-short].steps < shortSteps {
		short++
	}
	if later := w.Iterations - short; later == 0 || w.reached[later].steps < LeastSteps {
		return unroll.Factors{}, &verdict.Rejection{Reason: verdict.LoopExit, Detail: fmt.Sprintf(
			"the loop ends after %d more arrivals at its header, %d instructions: too few to tell what one takes; capture it earlier",
			w.Iterations-1, w.Steps)}
	}
	return unroll.Factors{Short: short, Long: w.Iterations}, nil
}

// after returns the state and the captured pages after some iterations.
func (m *MappedBlock) after(im harness.Image, iterations int, offsets [32]int) (c initial.Captured, pages [][]byte, err error) {
	c = *m.Plan.Captured
	var failed error
	_, err = m.walk(im, func(iteration int) {
		if iteration != iterations {
			return
		}
		pages = m.frames()
		failed = m.readVectors(&c, offsets)
	})
	regs := m.Region.Walked.reached[iterations].regs
	c.GPR, c.Flags = regs.GPR, regs.Flags
	return c, pages, cmp.Or(err, failed)
}

// FirstRuns lays out an image that runs all iterations, and n more that time their first run too, each on pages of its own; none if there is no
// room.
func (m *MappedBlock) FirstRuns(n int, read harness.Clock) (later harness.Image, first []harness.Image, err error) {
	b := m.startingAt(m.start, read)
	var images []harness.Image
	for at := m.Images; len(images) <= n; at = congruent(m.Images, images[len(images)-1].End()) {
		b.Harness.TimesFirst = len(images) > 0
		im, err := b.image(at, b.Factors.Long)
		if err != nil || im.End() > layout.CodeEnd {
			return later, nil, withoutRoom(err)
		}
		b.put(im)
		images = append(images, im)
	}
	return images[0], images[1:], nil
}

// withoutRoom drops the rejection of images that do not fit or that do not reach what they address.
func withoutRoom(err error) error {
	if verdict.ReasonOf(err) != "" {
		return nil
	}
	return err
}

// traceWalked takes the accesses that single steps saw as the trace.
func (m *MappedBlock) traceWalked() error {
	w := m.Region.Walked
	m.Trace = invariants.Trace{Insts: m.Insts, Frame: m.framesByPage(), Accesses: w.accesses, Copies: w.Iterations}
	if w.missed >= 0 {
		m.note("the trace lacks what %s accesses: single steps do not see vector and mask registers", m.Insts[w.missed].Text())
	}
	m.firstTouch()
	err := m.storesReadOnly()
	if left := (*Left)(nil); errors.As(err, &left) {
		return left.Why
	}
	return err
}

// frames copies what the pages hold.
func (m *MappedBlock) frames() (all [][]byte) {
	for i := range m.Plan.Captured.Pages {
		all = append(all, slices.Clone(m.Child.Frame(i)))
	}
	return all
}

// walk single-steps the loop from the captured state to its end, and calls arrived at each arrival at the header after the first.
func (m *MappedBlock) walk(im harness.Image, arrived func(iteration int)) (w Walk, err error) {
	w.missed = -1
	branches := make([]*Branched, len(m.Insts)) // nil for all but conditional branches
	for i := range m.Insts {
		if branch, ok := asm.TrailingBranch(m.Insts[i : i+1]); ok && branch.Conditional() {
			branches[i] = &Branched{Index: i}
		}
	}
	header := im.FirstCopy + uint64(m.Region.Entry)
	last := -1 // instruction
	err = m.stepThrough(im, walkLimit, func(_, inst int, at tracee.Regs) {
		if last >= 0 {
			if b := branches[last]; b != nil && at.RIP != im.FirstCopy+uint64(m.Insts[last].Offset+len(m.Insts[last].Bytes)) {
				b.Taken++
			}
		}
		if at.RIP == header {
			if w.reached = append(w.reached, reached{at, w.Steps}); arrived != nil {
				arrived(len(w.reached) - 1)
			}
		}
		w.Steps++
		last = inst
		if b := branches[inst]; b != nil {
			b.Of++
		}
		if w.missed < 0 && slices.ContainsFunc(m.Insts[inst].Mem, unstepped) {
			w.missed = inst
		}
		w.accesses = m.stepAccesses(w.accesses, len(w.reached)-1, inst, at)
	})
	if err != nil {
		return w, m.Plan.timeout(err)
	}
	w.Iterations = len(w.reached)
	if b := branches[last]; b != nil && m.leavesByTaking(last) {
		b.Taken++
	}
	for _, b := range branches {
		if b != nil && b.Of > 0 {
			w.Branches = append(w.Branches, *b)
		}
	}
	return w, nil
}

// leavesByTaking reports whether a branch leaves the loop only where it is taken.
func (m *MappedBlock) leavesByTaking(inst int) bool {
	next := m.Insts[inst].Offset + len(m.Insts[inst].Bytes)
	return slices.ContainsFunc(m.Insts, func(in asm.Inst) bool { return in.Offset == next })
}

// startBoth sets the states of both images, which are set by equal code: what a run takes holds the restoring of its state.
func (m *MappedBlock) startBoth(long, short initial.State) error {
	const otherFlags = 1<<10 | 1<<18 // DF and AC: both images load the flags from one place
	if (long.Flags^short.Flags)&otherFlags != 0 {
		return &verdict.Rejection{Reason: verdict.LeavesState, Detail: "the loop changes the direction flag or alignment checks from one iteration to another"}
	}
	var registers []int
	for _, v := range slices.Concat(long.Vectors, short.Vectors) {
		registers = append(registers, v.Reg)
	}
	slices.Sort(registers)
	registers = slices.Compact(registers)
	of := func(list []initial.Vector, reg int) initial.Vector {
		if i := slices.IndexFunc(list, func(v initial.Vector) bool { return v.Reg == reg }); i >= 0 {
			return list[i]
		}
		return initial.Vector{Reg: reg, Bits: 128}
	}
	var both [2][]initial.Vector
	for _, reg := range registers {
		a, b := of(long.Vectors, reg), of(short.Vectors, reg)
		a.Bits = max(a.Bits, b.Bits)
		b.Bits = a.Bits
		both[0], both[1] = append(both[0], a), append(both[1], b)
	}
	long.Vectors, short.Vectors = both[0], both[1]
	m.Harness.Reset.SameCode = true
	m.Region.start = map[int]initial.State{m.Factors.Long: long, m.Factors.Short: short}
	return nil
}

// restoreBoth lists the words that change until the end, with their values at the start of either image, given the pages
// in the middle and at the end.
func (m *MappedBlock) restoreBoth(middle, final [][]byte) error {
	var words, long, short []uint64
	for i := range m.Plan.Captured.Pages {
		page := &m.Plan.Captured.Pages[i]
		for at := 0; at < layout.PageSize; at += 8 {
			a, b, c := word(page.Data[at:]), word(middle[i][at:]), word(final[i][at:])
			if a != b || b != c {
				words, long, short = append(words, page.Address+uint64(at)), append(long, a), append(short, b)
			}
		}
	}
	if most := layout.MaxValues / 2; len(words) > most {
		return &verdict.Rejection{Reason: verdict.L1DMiss, Detail: fmt.Sprintf(
			"the loop changes %d words until its end, and no more than %d can be put back before the next run", len(words), most)}
	}
	m.Restore = words
	m.Region.first = map[int]int{m.Factors.Short: len(words)}
	m.Child.SetRestore(slices.Concat(words, words), slices.Concat(long, short))
	m.Child.SetWord(layout.SlotRestore, uint64(len(words)))
	return nil
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
