package mapping

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Program is a block repeated: copies in a row or, if Loop is set, a counted loop of them. If Region is set, it is a loop
// of a program, as it stands.
type Program struct {
	Insts   []asm.Inst
	Factors unroll.Factors // iterations of the shorter and of the longer image
	Loop    *unroll.Loop
	Region  *Region
}

// size returns the length of one copy in bytes.
func (p Program) size() int {
	last := p.Insts[len(p.Insts)-1]
	return last.Offset + len(last.Bytes)
}

// MidpointFactors returns the smaller number of iterations and the midpoint of both; ok is false if there is none, or if the longer image is
// timed alone.
func (p Program) MidpointFactors() (f unroll.Factors, ok bool) {
	f = unroll.Factors{Short: p.Factors.Short, Long: (p.Factors.Short + p.Factors.Long) / 2}
	if p.Loop != nil {
		copies, turns := p.Loop.Split(f.Long)
		f.Long = copies * turns
	}
	return f, p.Region == nil && f.Long > f.Short && f.Short > 0
}

// Arena is a child with room for images.
type Arena struct {
	Child      *tracee.Tracee
	ResetImage uint64        // image that restores all state that a block can change
	Images     uint64        // first address for images
	Clock      harness.Clock // read at the end of an image
}

// ImageBuilder lays out images of a program.
type ImageBuilder struct {
	Arena
	Program
	Harness harness.Harness // without clock and memory
	Offset  *int            // of the first copy in its page; nil: anywhere
}

// harness returns the harness of images that are emitted in place in the child's memory.
func (b ImageBuilder) harness() harness.Harness {
	h := b.Harness
	h.Clock, h.Memory = b.Clock, b.codeAt
	if b.Offset != nil {
		h.Offset = *b.Offset % 64 // image adds the whole lines
	}
	return h
}

func (b ImageBuilder) image(at uint64, iterations int) (harness.Image, error) {
	build := func(at uint64) (harness.Image, error) {
		if b.Region != nil {
			return harness.BuildRegion(at, b.Region.Region, b.Region.from(iterations, b.harness()), false)
		}
		return harness.Build(at, b.Insts, iterations, b.Loop, b.harness())
	}
	im, err := build(at)
	if b.Offset != nil && err == nil {
		// The distance from the image's start to its first copy is the same at any address.
		return build(im.Address + (uint64(*b.Offset)-im.FirstCopy)%layout.PageSize)
	}
	return im, err
}

// pair lays out both images and writes them to the child, shift bytes after at unless Offset sets the
// place.
func (b ImageBuilder) pair(at, shift uint64) (short, long harness.Image, err error) {
	if b.Offset != nil {
		shift = 0
	}
	if short, err = b.image(at+shift, b.Factors.Short); err != nil {
		return short, long, err
	}
	long, ok := short.For(b.Factors.Long)
	if !ok {
		if long, err = b.image(short.End(), b.Factors.Long); err != nil {
			return short, long, err
		}
	}
	if long.End() > layout.CodeEnd {
		return short, long, b.tooLarge()
	}
	b.put(short)
	b.put(long)
	return short, long, nil
}

func (b ImageBuilder) dryRun(iterations int) (im harness.Image, err error) {
	if b.Region != nil {
		im, err = harness.BuildRegion(layout.DryRunCode, b.Region.Region, b.harness(), true)
	} else {
		im, err = harness.BuildDryRun(b.Insts, iterations, b.Loop, b.harness())
	}
	if err != nil {
		return im, err
	}
	if im.End() > layout.DryRunCode+layout.DryRunCodeSize {
		return im, b.tooLarge()
	}
	b.put(im)
	return im, nil
}

func (b ImageBuilder) tooLarge() error {
	return &verdict.Rejection{
		Reason: verdict.CodeExceedsL1I,
		Detail: fmt.Sprintf("%d and %d copies of %d bytes do not fit the %d KiB there are for code", b.Factors.Short,
			b.Factors.Long, b.size(), layout.CodeSize>>10),
	}
}

// put writes an image to the child unless it was emitted there.
func (b ImageBuilder) put(im harness.Image) {
	if to := b.codeAt(im.Address); &to[0] != &im.Code[0] {
		copy(to, im.Code)
	}
}

// codeAt returns the child's memory from an address to the end of the region for code or for dry
// runs; nil elsewhere.
func (b ImageBuilder) codeAt(at uint64) []byte {
	switch {
	case at >= layout.Code && at < layout.CodeEnd:
		return b.Child.Code()[at-layout.Code:]
	case at >= layout.DryRunCode && at < layout.DryRunCode+layout.DryRunCodeSize:
		return b.Child.DryRunCode()[at-layout.DryRunCode:]
	}
	return nil
}

// An image moves by startStep for each byte of its first copy's start in a cache line: five lines for 16
// bytes, so that starts also differ in the sets of L1I and of the op cache.
const startStep = 5 * 64 / 16

// Replicates lays out an image pair for each of these starts of the first copy in its cache line, as many as fit. Each pass uses
// other code pages as long as they last: on the same pages some blocks keep one time throughout a run of bbprof and have another in
// the next. All pairs occupy the same sets of L1I, apart from the shift by the start. The last pair becomes the mapped block's.
func (m *MappedBlock) Replicates(starts []int, pass int, read harness.Clock) (pairs [][2]harness.Image, err error) {
	at := m.Images
	if m.area > 0 {
		at += uint64(pass) % max((layout.CodeEnd-m.Images)/m.area, 1) * m.area
	}
	first := at
	for _, start := range starts {
		short, long, err := m.startingAt(start, read).pair(at, uint64(start)*startStep)
		if err != nil {
			if len(pairs) > 0 && verdict.ReasonOf(err) == verdict.CodeExceedsL1I {
				break
			}
			return nil, err
		}
		m.Short, m.Long, m.start = short, long, start
		pairs = append(pairs, [2]harness.Image{short, long})
		at = congruent(at, long.End())
	}
	// The midpoint follows, with fewer copies than the longer image.
	m.area = max(m.area, congruent(at, at+uint64(len(m.Long.Code)))-first)
	return pairs, nil
}

// startingAt returns a builder for images whose first copy has this start in its cache line, unless Offset
// sets the place.
func (m *MappedBlock) startingAt(start int, read harness.Clock) ImageBuilder {
	p := m.ImageBuilder
	p.Clock = read
	p.Harness.Offset = start
	return p
}

// congruent returns the first address from end on with the page offset of at, and so the same L1I set.
func congruent(at, end uint64) uint64 {
	return at + (end-at+layout.PageSize-1)&^(layout.PageSize-1)
}

// Midpoint lays out an image of the midpoint after the last replicate, and adds to the list of words to
// restore for it. ok is false without a midpoint or without room.
func (m *MappedBlock) Midpoint(read harness.Clock) (im harness.Image, ok bool, err error) {
	midpoint, ok := m.MidpointFactors()
	if !ok {
		return im, false, nil
	}
	if im, ok = m.Short.For(midpoint.Long); ok {
		return im, true, m.addDirty(im)
	}
	p := m.startingAt(m.start, read)
	im, err = p.image(congruent(m.Long.Address, m.Long.End()), midpoint.Long)
	if err != nil || im.End() > layout.CodeEnd {
		return im, false, err
	}
	p.put(im)
	return im, true, m.addDirty(im)
}

// maxPadding is the most padding that aligns two images.
const maxPadding = 2 * 64

// CodeBytes returns the size of the code that runs: bbprof's own at the start of the region and both
// images, with the small gap between them unless the set-up makes it large.
func (m *MappedBlock) CodeBytes() int {
	if m.Offset == nil {
		whole := (m.Short.Address - m.Images) &^ (layout.PageSize - 1) // pages of other images
		return int(m.Long.End() - whole - layout.Code)
	}
	size := int(m.Images-layout.Code) + len(m.Short.Code)
	if m.Long.Address != m.Short.Address { // else both are one code
		size += len(m.Long.Code)
	}
	return size
}
