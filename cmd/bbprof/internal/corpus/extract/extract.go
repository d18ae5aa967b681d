// Package extract takes basic blocks out of programs, libraries, objects and archives.
//
// Each file is walked twice, one function after the other (walk.go): first to learn which
// addresses other functions jump to and where jump tables may begin, then to cut the code into
// blocks (blocks.go), which go to the caller at once. What is kept for the length of a file is its
// executable sections, its list of functions, and a bit for each byte of code. Functions come
// from symbols, frame descriptions and Go's table (functions.go), never from a sweep. In
// relocatable files the fields that a linker fills are filled before all that (relocate.go).
//
// A profile (callgrind.go, perf.go) adds which instructions ran, and how often.
package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
)

// Cut says where blocks end.
type Cut string

const (
	CutLeader   Cut = "leader"   // before the next address that control may come to from elsewhere
	CutTransfer Cut = "transfer" // at the next control transfer: blocks overlap
)

func Cuts() []Cut { return []Cut{CutLeader, CutTransfer} }

// Options say which blocks are wanted.
type Options struct {
	Cut     Cut
	Func    *regexp.Regexp // of the demangled name; nil: all
	Section *regexp.Regexp
	Min     int      // instructions
	Max     int      // 0: any number
	Profile *Profile // only what ran, with its count; nil: all that there is
	// Branches keeps the conditional branch that ends a block in its code.
	Branches bool
	Loops    bool // only blocks that branch to their own start, with their branches
	Lines    bool // also where in the sources they are from
	Empty    bool // also blocks that are nothing but a transfer
	Lenient  bool // files that cannot be read, or hold no code, are counted and passed over
}

// A Block is a basic block without the transfer that ends it.
type Block struct {
	Code         []byte // valid until the next
	File         string
	Function     string // demangled
	Section      string
	Addr         uint64 // as in the file; in a relocatable one from the section's start
	Instructions int
	Terminator   string // the transfer in Intel syntax, its target an address; "" if control falls into the next block
	Source       string // file:line by DWARF, "" if not known or not asked for
	Relocated    bool   // holds a field that a linker would fill
	Count        uint64 // executions; 1 without a profile
	InPlace      Timed
}

type Stats struct {
	Files          int
	Functions      int
	Blocks         int
	CutShort       int    // functions that do not decode through
	BytesCutShort  uint64 // of theirs from there on
	Unclaimed      uint64 // bytes in functions that nothing leads to and that do not read as code
	Overlaps       int    // branches into the middle of an instruction
	BadRelocations int
	BadFrames      int    // tables of functions that are damaged or unknown
	PassedOver     int    // files that ran and could not be read
	Whole          int    // sections about whose functions nothing is known
	Executed       uint64 // executions of instructions in these files, or samples, by the profile
	Found          uint64 // of those, in blocks and the transfers that end them
}

// File extracts one file's blocks, in the order of their addresses.
func File(ctx context.Context, name string, opts Options, stats *Stats, yield func(*Block) error) error {
	err := file(ctx, name, opts, stats, yield)
	if bad := (*InputError)(nil); opts.Lenient && errors.As(err, &bad) {
		stats.PassedOver++
		return nil
	}
	return err
}

// open opens a file from which blocks may be read in any order.
func open(name string) (*os.File, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, &InputError{Subject: name, Problem: plain(err)}
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = &InputError{Subject: name, Problem: plain(err)}
	case info.IsDir():
		err = &InputError{Subject: name, Problem: "a directory", Remedy: "name a file"}
	case !info.Mode().IsRegular():
		err = &InputError{Subject: name, Problem: "not a regular file", Remedy: "copy it to one: ELF files are read out of order"}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Readable reports the first of some files that cannot be opened, before a program runs for its counts.
func Readable(names []string) error {
	for _, name := range names {
		f, _, err := open(name)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

func file(ctx context.Context, name string, opts Options, stats *Stats, yield func(*Block) error) error {
	f, size, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if isArchive(f) {
		return archive(name, f, size, func(member string, r io.ReaderAt) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return one(input{name: member, path: name, from: r}, opts, stats, yield)
		})
	}
	if filepath.Ext(name) == ".s" && !isELF(f) {
		return assembly(ctx, name, opts, stats, yield)
	}
	return one(input{name: name, path: name, from: f}, opts, stats, yield)
}

type input struct {
	name  string // as rows have it
	path  string // as a profile has it
	from  io.ReaderAt
	marks []string // of the regions in the assembly that it was made of
}

func one(in input, opts Options, stats *Stats, yield func(*Block) error) (err error) {
	counts, err := opts.Profile.of(in.path)
	if err != nil {
		return err
	}
	o, err := openObject(in.name, in.from, stats)
	if err != nil {
		return err
	}
	o.marks = in.marks
	if err := o.findRegions(); err != nil {
		return err
	}
	if !slices.ContainsFunc(o.sections, func(s *section) bool { return s.executable }) {
		if o.relocatable { // such as a member of an archive that holds only data
			return nil
		}
		return &InputError{Subject: in.name, Problem: "it has no section of code", Remedy: "name a file that was not stripped of its section headers"}
	}
	o.findFunctions()
	o.addExecuted(counts)
	stats.Files++
	if counts != nil {
		stats.Executed += counts.between(0, ^uint64(0))
	}
	e := &extraction{o: o, opts: opts, stats: stats, yield: yield, counts: counts, entries: map[*section]bitmap{}}
	e.w = walker{o: o}
	if opts.Lines {
		e.lines = o.readLines()
	}
	e.survey()
	return e.blocks()
}

// An extraction is the two passes over one object.
type extraction struct {
	o       *object
	w       walker
	opts    Options
	stats   *Stats
	yield   func(*Block) error
	counts  counts
	entries map[*section]bitmap // where other functions jump to
	tables  []uint64
	offsets []int
	ran     []int
	block   Block
	lines   lines
	name    string // of the function that is being cut
}

// A bitmap has a bit for each byte of a section.
type bitmap []uint64

func (b bitmap) set(i uint64)      { b[i/64] |= 1 << (i % 64) }
func (b bitmap) has(i uint64) bool { return b[i/64]>>(i%64)&1 != 0 }

func (e *extraction) survey() {
	e.w.outside = func(target uint64) {
		s := e.o.code(target)
		if s == nil {
			return
		}
		if e.entries[s] == nil {
			e.entries[s] = make(bitmap, s.size()/64+1)
		}
		e.entries[s].set(target - s.addr)
	}
	for i := range e.o.functions {
		f := &e.o.functions[i]
		e.w.walk(f, nil, nil)
		if e.w.indirect || len(e.w.tables) > 0 {
			e.tables = append(e.tables, e.w.tables...)
		}
	}
	slices.Sort(e.tables)
	e.tables = slices.Compact(e.tables)
	e.w.outside = nil
	e.w.limits = append(e.tables, ^uint64(0))
}

func (e *extraction) blocks() error {
	for i := range e.o.functions {
		f := &e.o.functions[i]
		if e.counts != nil && !e.counts.any(f.lo-f.where.addr+f.where.shown, f.hi-f.where.addr+f.where.shown) {
			continue
		}
		if e.opts.Section != nil && !e.opts.Section.MatchString(f.where.Name) {
			continue
		}
		name := printable(demangled(f.symbol))
		if name == "" { // a stripped file's
			name = fmt.Sprintf("%#x", f.lo-f.where.addr+f.where.shown)
		}
		if e.opts.Func != nil && !e.opts.Func.MatchString(name) {
			continue
		}
		e.walk(f)
		e.stats.Functions++
		e.stats.Overlaps += e.w.overlaps
		e.stats.Unclaimed += uint64(e.w.unclaimed)
		if n := len(e.w.code) - e.w.cut; n > 0 {
			e.stats.CutShort++
			e.stats.BytesCutShort += uint64(n)
		}
		if err := e.cut(f, name); err != nil {
			return err
		}
	}
	return nil
}

func (e *extraction) walk(f *function) {
	e.offsets, e.ran = e.offsets[:0], e.ran[:0]
	if b := e.entries[f.where]; b != nil {
		for at := f.lo - f.where.addr; at < f.hi-f.where.addr; at++ {
			if at%64 == 0 && b[at/64] == 0 {
				at += 63
			} else if b.has(at) {
				e.offsets = append(e.offsets, int(at-(f.lo-f.where.addr)))
			}
		}
	}
	if e.counts != nil {
		e.ran = e.counts.addresses(f.lo-f.where.addr+f.where.shown, f.hi-f.where.addr+f.where.shown, e.ran)
	}
	for _, r := range e.o.regions {
		for _, at := range []uint64{r.lo, r.hi} {
			if at > f.lo && at < f.hi {
				e.offsets = append(e.offsets, int(at-f.lo))
			}
		}
	}
	e.w.walk(f, e.offsets, e.ran)
	if e.counts != nil {
		e.executedLeaders(f)
	}
}

// executedLeaders starts a block where instructions ran more often than the ones before them:
// control came from elsewhere, though nothing in the code says so.
func (e *extraction) executedLeaders(f *function) {
	base := f.lo - f.where.addr + f.where.shown
	w := &e.w
	before := -1
	for at := 0; at < len(w.code); at += max(1, int(w.length[at])) {
		if w.marks[at]&markStart == 0 {
			before = -1
			continue
		}
		repeats := w.marks[at]&markRepeat != 0 || before >= 0 && w.marks[before]&markRepeat != 0
		if n := e.counts.at(base + uint64(at)); n > 0 && !repeats && e.counts.exact() {
			if before < 0 || e.counts.at(base+uint64(before)) < n {
				w.marks[at] |= markLeader
			}
		}
		before = at
	}
}

// addExecuted makes functions of executed addresses that no function holds.
func (o *object) addExecuted(c counts) {
	if c == nil || o.relocatable {
		return
	}
	var found []function
	for _, s := range o.sections {
		if !s.executable || isLinkage(s.Name) {
			continue
		}
		for _, at := range c.addresses(s.addr, s.end(), nil) {
			addr := s.addr + uint64(at)
			if len(found) > 0 && addr < found[len(found)-1].hi || o.functionAt(addr) != nil {
				continue
			}
			i := sort.Search(len(o.functions), func(i int) bool { return o.functions[i].lo > addr })
			hi := s.end()
			if i < len(o.functions) {
				hi = min(hi, o.functions[i].lo)
			}
			found = append(found, function{span: span{addr, hi}, where: s})
		}
	}
	o.functions = append(o.functions, found...)
	slices.SortFunc(o.functions, func(a, b function) int { return cmp.Compare(a.lo, b.lo) })
}
