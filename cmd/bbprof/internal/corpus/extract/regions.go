package extract

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// findRegions finds marks in code, and the labels that assembleFile made from comments.
func (o *object) findRegions() error {
	for _, s := range o.sections {
		if !s.executable {
			continue
		}
		data := s.data()
		for at := 0; ; {
			i := bytes.Index(data[at:], markBegin)
			if i < 0 {
				break
			}
			lo := at + i + len(markBegin)
			n := bytes.Index(data[lo:], markEnd)
			if n < 0 {
				return &InputError{Subject: o.name, Problem: fmt.Sprintf("a region begins at %#x of %s and does not end", lo-len(markBegin), s.Name)}
			}
			o.regions = append(o.regions, region{span{s.addr + uint64(lo), s.addr + uint64(lo+n)}, fmt.Sprintf("region %d", len(o.regions)+1)})
			at = lo + n + len(markEnd)
		}
	}
	if o.marks != nil {
		o.labelledRegions()
	}
	slices.SortFunc(o.regions, func(a, b region) int { return cmp.Compare(a.lo, b.lo) })
	return nil
}

func (o *object) labelledRegions() {
	symbols, _ := o.elf.Symbols()
	at := map[string]uint64{}
	for _, sym := range symbols {
		for _, s := range o.sections {
			if s.index == int(sym.Section) && s.executable {
				at[sym.Name] = s.addr + sym.Value
			}
		}
	}
	for i, name := range o.marks {
		lo, ok := at[fmt.Sprintf(beginLabel, i)]
		hi, ok2 := at[fmt.Sprintf(endLabel, i)]
		if ok && ok2 && lo < hi {
			o.regions = append(o.regions, region{span{lo, hi}, name})
		}
	}
}

// regionOf returns the region that contains a range, or nil.
func (o *object) regionOf(lo, hi uint64) *region {
	for i := range o.regions {
		if r := &o.regions[i]; lo >= r.lo && hi <= r.hi {
			return r
		}
	}
	return nil
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
		switch {
		case m == nil:
			out.WriteString(text)
			continue
		case text[m[2]:m[3]] == "BEGIN":
			if open {
				return "", nil, fail("a region begins within another")
			}
			open = true
			title := strings.TrimSpace(text[m[4]:m[5]])
			if title == "" {
				title = fmt.Sprintf("region %d", len(names)+1)
			}
			names = append(names, title)
			fmt.Fprintf(&out, "%s; "+beginLabel+":\n", text[:m[0]], len(names)-1)
		default:
			if !open {
				return "", nil, fail("a region ends that did not begin")
			}
			open = false
			fmt.Fprintf(&out, "%s; "+endLabel+":\n", text[:m[0]], len(names)-1)
		}
	}
	if open {
		return "", nil, fail("a region does not end before the file does")
	}
	return out.String(), names, nil
}

func assembly(ctx context.Context, name string, opts Options, stats *Stats, yield func(*Block) error) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return &InputError{Subject: name, Problem: plain(err)}
	}
	text, marks, err := label(name, string(source))
	if err != nil {
		return err
	}
	as, err := assemble.New()
	if errors.Is(err, assemble.ErrMissing) {
		return &verdict.HostError{Missing: err.Error(), Remedy: "install one (Debian: apt-get install binutils), or assemble " + name + " elsewhere"}
	} else if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bbprof-extract-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "out.o")
	err = as.Object(ctx, text, path)
	if bad := (*assemble.Error)(nil); errors.As(err, &bad) {
		return &InputError{Subject: fmt.Sprintf("%s:%d", name, bad.Line), Problem: bad.Tool + ": " + bad.Message}
	} else if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return one(input{name: name, path: name, from: f, marks: marks}, opts, stats, yield)
}
