// Package extract extracts basic blocks from programs, libraries, objects and archives.
//
// It walks the functions of a file twice (walk.go): first to learn which addresses other functions jump to and
// where jump tables may begin, then to cut the code into blocks (blocks.go), which go to the caller at once. In
// memory it keeps a file's executable sections, its list of functions, and the targets of jumps between them. Functions
// come from symbols, frame descriptions and Go's table (functions.go), never from a sweep. In relocatable files it
// first fills the fields that a linker fills (relocate.go).
//
// A profile (callgrind.go, perf.go) adds which instructions ran, and how often.
package extract

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
)

// Cut selects where blocks end.
type Cut string

const (
	CutLeader   Cut = "leader"   // before the next address that control may reach from elsewhere
	CutTransfer Cut = "transfer" // at the next control transfer: blocks overlap
)

func Cuts() []Cut { return []Cut{CutLeader, CutTransfer} }

type Options struct {
	Cut     Cut
	Func    *regexp.Regexp // matches the demangled name; nil: all
	Min     int            // instructions
	Max     int            // 0: any number
	Profile *Profile       // only executed blocks, with counts; nil: all blocks
	// Branches keeps the conditional branch that ends a block in its code.
	Branches bool
	Loops    bool // natural loops instead of blocks
	Lines    bool // also the source position
	Depths   bool // also in how many loops a block is
	Lenient  bool // count and skip files that cannot be read or hold no code

	// Of the rows that Write writes:
	Unique bool // each block once, with counts added
	Text   bool // with a column asm
	Syntax assemble.Syntax
}

// A Block is a basic block without the transfer that ends it.
type Block struct {
	Code         []byte // part of its section's
	File         string
	Function     string // demangled
	Section      string
	Addr         uint64 // address in the file; in a relocatable one, offset in the section
	Instructions int
	Terminator   string // transfer in Intel syntax, with an absolute target; "" if control falls through
	Blocks       int    // of a loop, whose Code has all of them
	Entry        int    // offset of a loop's header
	Exits        int    // edges that leave a loop
	Depth        int    // number of loops that hold a loop's header, or a block if requested
	Source       string // file:line by DWARF, "" if unknown or not requested
	Relocated    bool   // holds a field that a linker would fill
	Count        uint64 // executions; 1 without a profile
	InPlace      Timed
}

type Stats struct {
	Files          int
	Functions      int
	Blocks         int
	CutShort       int // functions that do not decode to their end
	BytesCutShort  int // their bytes after the failure
	Unclaimed      int // bytes of functions that are unreachable and do not read as code
	BadRelocations int
	BadFrames      int    // damaged or unknown function tables
	PassedOver     int    // executed files that could not be read
	Executed       uint64 // executed instructions in these files, or samples, by the profile
	Found          uint64 // of those, in blocks and their terminators
	Loops          int
	Innermost      int
	InnermostFound int            // of those, in rows
	LeftOut        map[string]int // loops without a row, by reason
	BlockRuns      uint64         // executions of all blocks of these files, selected or not, by the profile
}

// File extracts one file's blocks in address order.
func File(ctx context.Context, name string, opts Options, stats *Stats, yield func(*Block) error) error {
	profiled := sync.OnceValues(func() (counts, error) { return opts.Profile.of(name) }) // an archive has many objects
	err := eachObject(ctx, name, stats, func(o *object) error {
		counts, err := profiled()
		if err != nil {
			return err
		}
		return o.extract(opts, counts, yield)
	})
	if bad := (*InputError)(nil); opts.Lenient && errors.As(err, &bad) {
		stats.PassedOver++
		return nil
	}
	return err
}

// open opens a file for reading in any order.
func open(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = unreadable(name, err)
	case info.IsDir():
		err = &InputError{Subject: name, Problem: "a directory", Remedy: "name a file"}
	case !info.Mode().IsRegular():
		err = &InputError{Subject: name, Problem: "not a regular file", Remedy: "copy it to one: it is read out of order"}
	}
	if err != nil {
		f.Close()
	}
	return f, err
}

// IsCode reports whether a file is one that File takes blocks from, by its first bytes or as assembly by its name.
func IsCode(name string) bool {
	f, err := open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return isELF(f) || isArchive(f) || filepath.Ext(name) == ".s"
}

// Readable reports the first file that cannot be opened, before a program runs for its counts.
func Readable(names []string) error {
	for _, name := range names {
		f, err := open(name)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// eachObject opens the ELF files in a file: one, those of an archive, or what assembly makes.
func eachObject(ctx context.Context, name string, stats *Stats, do func(*object) error) error {
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	one := func(name string, from io.ReaderAt, marks []string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		o, err := openObject(name, from, marks, stats)
		if err != nil {
			return err
		}
		return do(o)
	}
	switch {
	case isArchive(f):
		return archive(name, f, one)
	case filepath.Ext(name) == ".s" && !isELF(f):
		return assembly(ctx, name, one)
	}
	return one(name, f, nil)
}

func (o *object) extract(opts Options, counts counts, yield func(*Block) error) error {
	if !slices.ContainsFunc(o.sections, func(s *section) bool { return s.executable }) {
		if o.relocatable { // an archive member with data alone, for example
			return nil
		}
		return &InputError{Subject: o.name, Problem: "it has no section of code", Remedy: "name a file that was not stripped of its section headers"}
	}
	o.findFunctions()
	o.addExecuted(counts)
	o.stats.Files++
	if counts != nil {
		o.stats.Executed += total(counts)
	}
	e := &extraction{o: o, opts: opts, stats: o.stats, yield: yield, counts: counts, w: walker{o: o}}
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
	counts  counts   // nil without a profile
	entries []uint64 // targets of jumps from other functions, sorted
	lines   lines

	// Of the current function:
	name     string
	selected bool
	depths   map[int]int // of its blocks, if requested
}

// survey walks all functions to find where they jump to, and where tables of jumps may begin.
func (e *extraction) survey() {
	var tables []uint64
	e.w.outside = func(target uint64) { e.entries = append(e.entries, target) }
	for i := range e.o.functions {
		e.w.walk(&e.o.functions[i], nil, nil)
		tables = append(tables, e.w.tables...)
	}
	slices.Sort(e.entries)
	e.entries = slices.Compact(e.entries)
	slices.Sort(tables)
	e.w.outside, e.w.limits = nil, append(slices.Compact(tables), ^uint64(0))
}

// within returns the addresses of a sorted list from lo to before hi.
func within(sorted []uint64, lo, hi uint64) []uint64 {
	i, _ := slices.BinarySearch(sorted, lo)
	j, _ := slices.BinarySearch(sorted, hi)
	return sorted[i:max(i, j)]
}

func (e *extraction) blocks() error {
	for i := range e.o.functions {
		f := &e.o.functions[i]
		if e.counts != nil && e.counts.between(f.lo, f.hi) == 0 && e.counts.at(f.lo) == 0 {
			continue
		}
		e.name, e.depths = f.name(), nil
		e.selected = e.opts.Func == nil || e.opts.Func.MatchString(e.name)
		if !e.selected && e.counts == nil {
			continue
		}
		e.walk(f)
		if e.selected {
			e.stats.Functions++
			e.stats.Unclaimed += e.w.unclaimed
			if n := len(e.w.code) - e.w.cut; n > 0 {
				e.stats.CutShort++
				e.stats.BytesCutShort += n
			}
		}
		if err := e.cut(f); err != nil {
			return err
		}
	}
	return nil
}

func (e *extraction) walk(f *function) {
	starts := slices.Clone(within(e.entries, f.lo, f.hi))
	for _, r := range e.o.regions {
		starts = append(starts, r.lo, r.hi)
	}
	var ran []uint64
	if e.counts != nil {
		ran = e.counts.addresses(f.lo, f.hi)
	}
	e.w.walk(f, starts, ran)
	if e.counts != nil && e.counts.exact() {
		e.executedLeaders(f)
	}
}

// executedLeaders starts a block at each instruction that ran more often than its predecessor: control came from
// elsewhere, though the code does not show it.
func (e *extraction) executedLeaders(f *function) {
	w := &e.w
	before := -1
	for at := 0; at < len(w.code); at += max(1, int(w.length[at])) {
		if w.marks[at]&markStart == 0 {
			before = -1
			continue
		}
		repeats := w.marks[at]&markRepeat != 0 || before >= 0 && w.marks[before]&markRepeat != 0
		if n := e.counts.at(f.lo + uint64(at)); n > 0 && !repeats && (before < 0 || e.counts.at(f.lo+uint64(before)) < n) {
			w.marks[at] |= markLeader
		}
		before = at
	}
}

// addExecuted creates functions for executed addresses outside all functions.
func (o *object) addExecuted(c counts) {
	if c == nil {
		return
	}
	var found []function
	for _, s := range o.sections {
		if !s.executable || isLinkage(s.Name) {
			continue
		}
		for _, addr := range c.addresses(s.addr, s.end()) {
			i := sort.Search(len(o.functions), func(i int) bool { return o.functions[i].hi > addr })
			hi := s.end()
			if i < len(o.functions) {
				hi = min(hi, o.functions[i].lo)
			}
			if addr < hi && (len(found) == 0 || addr >= found[len(found)-1].hi) {
				found = append(found, function{span: span{addr, hi}, where: s})
			}
		}
	}
	o.functions = append(o.functions, found...)
	slices.SortFunc(o.functions, func(a, b function) int { return cmp.Compare(a.lo, b.lo) })
}
