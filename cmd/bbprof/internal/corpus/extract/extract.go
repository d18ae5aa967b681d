// Package extract extracts basic blocks from programs, libraries, objects and archives.
//
// It walks the functions of a file twice (walk.go): first to learn which addresses other functions jump to and
// where jump tables may begin, then to cut the code into blocks (blocks.go), which go to the caller at once. In
// memory it keeps a file's executable sections, its list of functions, and a bit for each byte of code. Functions
// come from symbols, frame descriptions and Go's table (functions.go), never from a sweep. In relocatable files it
// first fills the fields that a linker fills (relocate.go).
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

// Cut selects where blocks end.
type Cut string

const (
	CutLeader   Cut = "leader"   // before the next address that control may reach from elsewhere
	CutTransfer Cut = "transfer" // at the next control transfer: blocks overlap
)

func Cuts() []Cut { return []Cut{CutLeader, CutTransfer} }

// Options select the blocks.
type Options struct {
	Cut     Cut
	Func    *regexp.Regexp // matches the demangled name; nil: all
	Section *regexp.Regexp
	Min     int      // instructions
	Max     int      // 0: any number
	Profile *Profile // only executed blocks, with counts; nil: all blocks
	// Branches keeps the conditional branch that ends a block in its code.
	Branches bool
	Loops    bool // only blocks that branch to their own start, with their branches
	Lines    bool // also the source position
	Empty    bool // also blocks of a transfer alone
	Lenient  bool // count and skip files that cannot be read or hold no code
}

// A Block is a basic block without the transfer that ends it.
type Block struct {
	Code         []byte // valid until the next block
	File         string
	Function     string // demangled
	Section      string
	Addr         uint64 // address in the file; in a relocatable one, offset in the section
	Instructions int
	Terminator   string // transfer in Intel syntax, with an absolute target; "" if control falls through
	Depth        int    // number of loops that hold it, if only loops were requested
	Source       string // file:line by DWARF, "" if unknown or not requested
	Relocated    bool   // holds a field that a linker would fill
	Count        uint64 // executions; 1 without a profile
	InPlace      Timed
}

type Stats struct {
	Files          int
	Functions      int
	Blocks         int
	CutShort       int    // functions that do not decode to their end
	BytesCutShort  uint64 // their bytes after the failure
	Unclaimed      uint64 // bytes of functions that are unreachable and do not read as code
	Overlaps       int    // branches into the middle of an instruction
	BadRelocations int
	BadFrames      int    // damaged or unknown function tables
	PassedOver     int    // executed files that could not be read
	Whole          int    // sections without known functions
	Executed       uint64 // executed instructions in these files, or samples, by the profile
	Found          uint64 // of those, in blocks and their terminators
}

// File extracts one file's blocks in address order.
func File(ctx context.Context, name string, opts Options, stats *Stats, yield func(*Block) error) error {
	err := file(ctx, name, opts, stats, yield)
	if bad := (*InputError)(nil); opts.Lenient && errors.As(err, &bad) {
		stats.PassedOver++
		return nil
	}
	return err
}

// open opens a file for reading blocks in any order.
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

// Readable reports the first file that cannot be opened, before a program runs for its counts.
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
	name  string // in rows
	path  string // in profiles
	from  io.ReaderAt
	marks []string // regions marked in the assembly source
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
		if o.relocatable { // an archive member with data alone, for example
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

// An extraction holds the two passes over one object.
type extraction struct {
	o       *object
	w       walker
	opts    Options
	stats   *Stats
	yield   func(*Block) error
	counts  counts
	entries map[*section]bitmap // targets of jumps from other functions
	tables  []uint64
	offsets []int
	ran     []int
	block   Block
	depths  map[int]int // of the current function's blocks, if needed
	lines   lines
	name    string // of the current function
}

// A bitmap holds a bit for each byte of a section.
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
		if name == "" { // the file is stripped
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

// executedLeaders starts a block at each instruction that ran more often than its predecessor: control came from
// elsewhere, though the code does not show it.
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

// addExecuted creates functions for executed addresses outside all functions.
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
