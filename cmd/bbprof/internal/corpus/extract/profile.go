package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A Profile counts executed instructions by file.
type Profile struct {
	Source  string                  // the file it was read from
	Samples bool                    // counts are samples of time, not executions
	Timed   bool                    // branch records have cycles
	objects map[string]objectCounts // by resolved path
	Lost    uint64                  // executions or samples outside all files
	Total   uint64                  // all of them
}

type objectCounts struct {
	name   string // in the profile
	counts counts
}

type counts interface {
	at(addr uint64) uint64            // executions of the instruction
	between(lo, hi uint64) uint64     // sum over a range
	addresses(lo, hi uint64) []uint64 // executed instructions
	exact() bool                      // at counts executions; otherwise only between is meaningful
}

// ReadProfile reads callgrind's file, or the text of perf.
func ReadProfile(name string) (*Profile, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if start := starts(f, 1<<12); strings.Contains(start, "events: ") || strings.HasPrefix(start, "# callgrind") {
		return ReadCallgrind(name)
	}
	p, err := ReadPerf(name)
	if bad := (*InputError)(nil); errors.As(err, &bad) && bad.Remedy == perfRemedy {
		bad.Remedy = "write it by " + callgrindRun + " or " + perfScript
	}
	return p, err
}

func total(c counts) uint64 { return c.between(0, ^uint64(0)) }

func (p *Profile) of(path string) (counts, error) {
	if p == nil {
		return nil, nil
	}
	if c, ran := p.objects[Resolved(path)]; ran {
		return c.counts, nil
	}
	names := p.Files()
	if len(names) == 0 {
		return nil, &InputError{Subject: p.Source, Problem: "it names no file that ran"}
	}
	return nil, &InputError{
		Subject: path, Problem: fmt.Sprintf("none of it ran, according to %s", p.Source),
		Remedy: fmt.Sprintf("what ran is in %s", strings.Join(names[:min(len(names), 5)], ", ")),
	}
}

// Files lists the files that ran, those with most instructions or samples first.
func (p *Profile) Files() (names []string) {
	all := slices.SortedFunc(maps.Values(p.objects), func(a, b objectCounts) int {
		return cmp.Or(cmp.Compare(total(b.counts), total(a.counts)), cmp.Compare(a.name, b.name))
	})
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// Resolved returns a path without symbolic links, as far as it exists: the one name that all profiles use for it.
func Resolved(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

// exactCounts holds executions per instruction, sorted by address.
type exactCounts struct {
	addrs   []uint64
	sums    []uint64 // prefix sums of the counts
	sampled bool     // counts are samples of time
}

func newExactCounts(m map[uint64]uint64, sampled bool) *exactCounts {
	c := &exactCounts{addrs: slices.Sorted(maps.Keys(m)), sampled: sampled}
	sum := uint64(0)
	for _, addr := range c.addrs {
		c.sums = append(c.sums, sum)
		sum += m[addr]
	}
	c.sums = append(c.sums, sum)
	return c
}

func (c *exactCounts) exact() bool { return !c.sampled }

func (c *exactCounts) at(addr uint64) uint64 { return c.between(addr, addr+1) }

func (c *exactCounts) between(lo, hi uint64) uint64 {
	i, _ := slices.BinarySearch(c.addrs, lo)
	return c.sums[i+len(within(c.addrs, lo, hi))] - c.sums[i]
}

func (c *exactCounts) addresses(lo, hi uint64) []uint64 { return within(c.addrs, lo, hi) }

// ByFunction passes on what profiles of one run count in each function of the files that ran, or in each region of a file that has
// them. A file that cannot be read is left out.
func ByFunction(ctx context.Context, profiles []*Profile, yield func(file, function string, counts []uint64)) error {
	for _, name := range profiles[0].Files() {
		path := Resolved(name)
		err := eachObject(ctx, name, new(Stats), func(o *object) error {
			o.findFunctions()
			for _, p := range profiles {
				o.addExecuted(p.objects[path].counts)
			}
			parts := o.regions
			for i := range o.functions {
				if f := &o.functions[i]; o.regions == nil {
					parts = append(parts, region{f.span, f.name()})
				}
			}
			for _, part := range parts {
				var sums []uint64
				for _, p := range profiles {
					sums = append(sums, p.objects[path].counts.between(part.lo, part.hi))
				}
				if slices.Max(sums) > 0 {
					yield(path, part.name, sums)
				}
			}
			return nil
		})
		if err != nil && !errors.As(err, new(*InputError)) {
			return err
		}
	}
	return nil
}
