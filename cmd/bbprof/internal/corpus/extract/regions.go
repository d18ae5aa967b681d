package extract

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/verdict"
)

// Regions are marked by users of static models: in assembly by comments, "# LLVM-MCA-BEGIN name" and "#
// LLVM-MCA-END", "# OSACA-BEGIN" and "# OSACA-END"; in code by IACA's two instructions, which OSACA knows too. If
// a file has regions, blocks come from them alone.
type region struct {
	span
	name string
}

// IACA's marks (OSACA's documentation, "Marker instructions"): mov ebx, 111 or 222, and a nop with the prefixes fs
// and addr32.
var (
	markBegin = []byte{0xbb, 111, 0, 0, 0, 0x64, 0x67, 0x90}
	markEnd   = []byte{0xbb, 222, 0, 0, 0, 0x64, 0x67, 0x90}
)

// findRegions finds IACA's marks in code, and the labels that stand for comments of assembly with these names.
func (o *object) findRegions(names []string) error {
	add := func(lo, hi uint64, name string) { o.regions = append(o.regions, region{span{lo, hi}, name}) }
	for _, s := range o.sections {
		if !s.executable {
			continue
		}
		for rest, at := s.data(), s.addr; ; {
			before, marked, begins := bytes.Cut(rest, markBegin)
			if !begins {
				break
			}
			region, after, ends := bytes.Cut(marked, markEnd)
			lo := at + uint64(len(before)+len(markBegin))
			if !ends {
				return &InputError{Subject: o.name, Problem: fmt.Sprintf("a region begins at %#x of %s and does not end",
					lo-uint64(len(markBegin))-s.addr, s.Name)}
			}
			hi := lo + uint64(len(region))
			add(lo, hi, fmt.Sprintf("region %d", len(o.regions)+1))
			rest, at = after, hi+uint64(len(markEnd))
		}
	}
	if len(names) > 0 {
		at := map[string]uint64{}
		symbols, _ := o.elf.Symbols()
		for _, sym := range symbols {
			for _, s := range o.sections {
				if s.index == int(sym.Section) {
					at[sym.Name] = s.addr + sym.Value
				}
			}
		}
		for i, name := range names {
			if lo, hi := at[fmt.Sprintf(beginLabel, i)], at[fmt.Sprintf(endLabel, i)]; 0 < lo && lo < hi {
				add(lo, hi, name)
			}
		}
	}
	slices.SortFunc(o.regions, func(a, b region) int { return cmp.Compare(a.lo, b.lo) })
	return nil
}

// regionOf returns the name of the region that contains a range.
func (o *object) regionOf(lo, hi uint64) (name string, found bool) {
	i := slices.IndexFunc(o.regions, func(r region) bool { return lo >= r.lo && hi <= r.hi })
	if i < 0 {
		return "", false
	}
	return o.regions[i].name, true
}

const (
	beginLabel = "bbprof.begin.%d"
	endLabel   = "bbprof.end.%d"
)

// comment matches a region mark in assembly.
var comment = regexp.MustCompile(`(?:#|//)[ \t]*(?:LLVM-MCA|OSACA)-(BEGIN|END)\b[ \t]*([^\r\n]*)`)

// label replaces the comments by labels on the same lines, and lists the regions' names.
func label(name, source string) (string, []string, error) {
	var (
		out   strings.Builder
		names []string
		open  bool
		line  int
	)
	fail := func(problem string) error {
		return &InputError{Subject: fmt.Sprintf("%s:%d", name, line), Problem: problem}
	}
	for text := range strings.Lines(source) {
		line++
		m := comment.FindStringSubmatchIndex(text)
		if m == nil {
			out.WriteString(text)
			continue
		}
		begins := text[m[2]:m[3]] == "BEGIN"
		switch {
		case begins && open:
			return "", nil, fail("a region begins within another")
		case !begins && !open:
			return "", nil, fail("a region ends that did not begin")
		}
		open = begins
		format := endLabel
		if begins {
			format = beginLabel
			names = append(names, cmp.Or(strings.TrimSpace(text[m[4]:m[5]]), fmt.Sprintf("region %d", len(names)+1)))
		}
		fmt.Fprintf(&out, "%s; "+format+":\n", text[:m[0]], len(names)-1)
	}
	if open {
		return "", nil, fail("a region does not end before the file does")
	}
	return out.String(), names, nil
}

// assembly calls one for the object that a file of assembly makes, with the names of its regions.
func assembly(ctx context.Context, name string, one func(string, io.ReaderAt, []string) error) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return unreadable(name, err)
	}
	text, marks, err := label(name, string(source))
	if err != nil {
		return err
	}
	as, err := assemble.New()
	if err != nil {
		return &verdict.HostError{Missing: err.Error(), Remedy: "install one (Debian: apt-get install binutils), or assemble " + name + " elsewhere"}
	}
	object, err := as.Object(ctx, assemble.Source(text))
	if bad := (*assemble.Error)(nil); errors.As(err, &bad) {
		return &InputError{Subject: fmt.Sprintf("%s:%d", name, bad.Line), Problem: bad.Tool + ": " + bad.Message}
	} else if err != nil {
		return err
	}
	return one(name, bytes.NewReader(object), marks)
}
