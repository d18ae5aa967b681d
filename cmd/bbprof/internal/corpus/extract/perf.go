package extract

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	perfScript = "perf script --show-mmap-events, with -F +brstack where branches were sampled"
	perfRemedy = "write it by " + perfScript
)

// ReadPerf reads the text of perf script --show-mmap-events: mappings of files, and samples.
//
// A sample is an address, which shows where time went. With branch records (LBR, perf record -b) it also lists
// pairs "0xFROM/0xTO/…", the latest first: all instructions between the target of one and the source of the next
// ran once.
func ReadPerf(name string) (*Profile, error) {
	p := perfReader{maps: map[string][]mapping{}, files: map[string]*perfFile{}}
	err := eachLine(name, perfRemedy, p.take)
	switch {
	case err != nil:
		return nil, err
	case len(p.maps) == 0:
		return nil, &InputError{Subject: name, Problem: "it does not say where files were mapped", Remedy: perfRemedy}
	case p.total == 0:
		return nil, &InputError{Subject: name, Problem: "it holds no sample", Remedy: perfRemedy}
	}
	return p.profile(name), nil
}

func (p *perfReader) take(line string) error {
	if strings.ContainsRune(line, 0) {
		return errors.New("not text")
	}
	if at := strings.Index(line, "PERF_RECORD_MMAP"); at >= 0 {
		return p.mapped(line[at:])
	}
	p.sample(line)
	return nil
}

type mapping struct {
	span
	offset uint64
	file   string
}

// A perfFile holds the samples of one file, by its own addresses.
type perfFile struct {
	loads   []elf.ProgHeader
	samples map[uint64]uint64
	ran     rangeCounts // from a branch's target to the next branch
}

type perfReader struct {
	maps    map[string][]mapping // by process
	files   map[string]*perfFile
	total   uint64
	lost    uint64
	stacks  bool
	process string // of a sample whose address is on the next line
	pending bool
	chain   bool // lines up to the next blank one are callers
}

// mapLine matches "PERF_RECORD_MMAP2 30128/30128: [0x562d1a916000(0xf000) @ 0x3000 fe:00 247273 0]: r-xp /usr/bin/gzip".
var mapLine = regexp.MustCompile(`^\S+ (\w+)/[^[]*\[(\w+)\((\w+)\) @ (\w+)[^]]*\]: (\S*) (.*)`)

func (p *perfReader) mapped(s string) error {
	m := mapLine.FindStringSubmatch(s)
	if m == nil {
		return errors.New("a mapping that is not as perf script writes it")
	}
	lo, err := strconv.ParseUint(m[2], 0, 64)
	n, err2 := strconv.ParseUint(m[3], 0, 64)
	at, err3 := strconv.ParseUint(m[4], 0, 64)
	if err := errors.Join(err, err2, err3); err != nil || lo+n < lo {
		return fmt.Errorf("a mapping that is not as perf script writes it: %w", cmp.Or(err, errors.New("it has no end")))
	}
	if strings.Contains(m[5], "x") {
		p.maps[m[1]] = append(p.maps[m[1]], mapping{span{lo, lo + n}, at, m[6]})
	}
	return nil
}

// sample parses "gzip 30128 2958.536543: 200000 cpu-clock:u: 7f84faaab477 symbol+0xde7 (/usr/…)"; all but the
// address is optional. With call chains the addresses follow on lines of their own, innermost first.
func (p *perfReader) sample(line string) {
	cells := strings.Fields(line)
	if len(cells) == 0 {
		p.pending, p.chain = false, false
		return
	}
	from, header := 0, false
	for i, c := range cells {
		if strings.HasSuffix(c, ":") {
			from, header = i+1, true
		}
	}
	if header {
		p.process = ""
		for _, c := range cells[1:from] {
			id, _, _ := strings.Cut(c, "/")
			if _, err := strconv.ParseUint(id, 10, 64); err == nil {
				p.process = id
				break
			}
		}
		p.pending, p.chain = true, false
	} else if p.chain { // callers
		return
	}
	if from < len(cells) {
		if ip, err := strconv.ParseUint(cells[from], 16, 64); err == nil && ip > 1<<12 {
			p.total++
			p.pending, p.chain = false, p.pending && !header
			if f, at := p.file(ip); f != nil {
				f.samples[at]++
			} else {
				p.lost++
			}
		}
	}
	p.branches(cells[from:])
}

func (p *perfReader) branches(cells []string) {
	next, took := uint64(0), uint64(0) // source of the following branch, and its cycles
	for _, c := range cells {
		source, rest, ok := strings.Cut(c, "/")
		target, rest, ok2 := strings.Cut(rest, "/")
		if !ok || !ok2 || !strings.HasPrefix(source, "0x") {
			continue
		}
		from, err := strconv.ParseUint(source, 0, 64)
		to, err2 := strconv.ParseUint(target, 0, 64)
		if errors.Join(err, err2) != nil {
			continue
		}
		p.stacks = true
		if next >= to && next-to < maxRun {
			f, lo := p.file(to)
			if g, hi := p.file(next); f != nil && f == g && lo <= hi {
				f.ran.add(lo, hi, took)
			}
		}
		next, took = from, 0
		if fields := strings.Split(rest, "/"); len(fields) >= 4 { // M/X/A/CYCLES, and more of newer versions of perf
			took, _ = strconv.ParseUint(fields[3], 10, 64) // "-" is 0
		}
	}
}

// maxRun bounds the distance between two branches; a longer one is a gap in the record.
const maxRun = 1 << 16

// file returns the file mapped at an address, and the address within it.
func (p *perfReader) file(ip uint64) (*perfFile, uint64) {
	m := p.find(p.process, ip)
	if m == nil { // a forked child has its parent's mappings
		for process := range p.maps {
			if m = p.find(process, ip); m != nil {
				break
			}
		}
	}
	if m == nil || !strings.HasPrefix(m.file, "/") {
		return nil, 0
	}
	f := p.files[m.file]
	if f == nil {
		f = &perfFile{samples: map[uint64]uint64{}, ran: rangeCounts{timed: map[span]Timed{}}}
		if e, err := elf.Open(m.file); err == nil {
			for _, prog := range e.Progs {
				if prog.Type == elf.PT_LOAD {
					f.loads = append(f.loads, prog.ProgHeader)
				}
			}
			e.Close()
		}
		p.files[m.file] = f
	}
	offset := ip - m.lo + m.offset
	for _, l := range f.loads {
		if offset >= l.Off && offset-l.Off < l.Filesz {
			return f, offset - l.Off + l.Vaddr
		}
	}
	return nil, 0
}

func (p *perfReader) find(process string, ip uint64) *mapping {
	maps := p.maps[process]
	for i := len(maps) - 1; i >= 0; i-- { // the latest mapping counts
		if ip >= maps[i].lo && ip < maps[i].hi {
			return &maps[i]
		}
	}
	return nil
}

func (p *perfReader) profile(source string) *Profile {
	out := &Profile{Source: source, Samples: !p.stacks, Total: p.total, Lost: p.lost, objects: map[string]objectCounts{}}
	for name, f := range p.files {
		var c counts = newExactCounts(f.samples, true)
		if p.stacks {
			slices.Sort(f.ran.starts)
			slices.Sort(f.ran.ends)
			c = &f.ran
			out.Timed = out.Timed || len(f.ran.timed) > 0
		}
		if total(c) > 0 {
			out.objects[Resolved(name)] = objectCounts{name, c}
		}
	}
	return out
}

// rangeCounts holds instruction ranges that ran without a branch, both ends included.
type rangeCounts struct {
	starts, ends []uint64 // each sorted
	timed        map[span]Timed
}

// Timed is how long a block took in its program, as the CPU recorded it with branches: core cycles from the retirement of the
// branch before it to that of its own, mispredictions and misses included.
type Timed struct {
	Cycles, Runs uint64
}

// mean returns the cycles of a run, "" if none was timed.
func (t Timed) mean() string {
	if t.Runs == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(t.Cycles)/float64(t.Runs), 'f', 4, 64)
}

// add takes a range that ran; 0 cycles are of a CPU that records none, or of too many to record.
func (c *rangeCounts) add(lo, hi, cycles uint64) {
	c.starts, c.ends = append(c.starts, lo), append(c.ends, hi)
	if cycles > 0 {
		sum := c.timed[span{lo, hi}]
		c.timed[span{lo, hi}] = Timed{sum.Cycles + cycles, sum.Runs + 1}
	}
}

// timed returns the time of a block from its start to its branch, of ranges that were nothing else.
func timed(c counts, start, branch uint64) Timed {
	if r, ok := c.(*rangeCounts); ok {
		return r.timed[span{start, branch}]
	}
	return Timed{}
}

func (c *rangeCounts) exact() bool { return true }

// at returns how many ranges contain an address.
func (c *rangeCounts) at(addr uint64) uint64 {
	return uint64(len(within(c.starts, 0, addr+1)) - len(within(c.ends, 0, addr)))
}

// between returns how many ranges begin in [lo, hi).
func (c *rangeCounts) between(lo, hi uint64) uint64 { return uint64(len(within(c.starts, lo, hi))) }

func (c *rangeCounts) addresses(lo, hi uint64) []uint64 { return within(c.starts, lo, hi) }
