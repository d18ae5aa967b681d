package extract

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

// frames makes an .eh_frame section of one common entry with this augmentation, and a frame description for each
// pair: distance from its field to the code, and size.
func frames(augmentation string, functions ...[2]int32) []byte {
	entry := func(body []byte) []byte {
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	common := append([]byte{0, 0, 0, 0, 1}, augmentation...)
	common = append(common, 0, 1, 0x78, 16, 1, encodePCRel|encodeS4)
	out := entry(common)
	for _, f := range functions {
		body := binary.LittleEndian.AppendUint32(nil, uint32(len(out)+4)) // back to the common entry
		body = binary.LittleEndian.AppendUint32(body, uint32(f[0]))
		body = binary.LittleEndian.AppendUint32(body, uint32(f[1]))
		out = append(out, entry(append(body, 0))...)
	}
	return append(out, 0, 0, 0, 0)
}

func TestFrameSpans(t *testing.T) {
	const at = 0x3000
	good := frames("zR", [2]int32{-0x2000, 16}, [2]int32{-0x1000, 1})
	first := uint64(at + 20 + 8 - 0x2000) // the field follows the common entry, a length and an identifier
	for _, tt := range []struct {
		name  string
		data  []byte
		want  []span
		whole bool
	}{
		{"two functions", good, []span{{first, first + 16}, {first + 0x1000 + 20, first + 0x1000 + 21}}, true},
		{"a return from a signal handler starts a byte early", frames("zRS", [2]int32{-0x2000, 16}), []span{{first + 1, first + 16}}, true},
		{"an augmentation that is not known", frames("zQ", [2]int32{-0x2000, 16}), nil, true},
		{"no code", frames("zR", [2]int32{-0x2000, 0}), nil, true},
		{"cut within the second", good[:50], []span{{first, first + 16}}, false},
		{"a length beyond the end", []byte{0xff, 0, 0, 0, 1}, nil, false},
		{"nothing", nil, nil, true},
	} {
		got, whole := frameSpans(tt.data, at)
		require.Equal(t, tt.name, tt.want, got, cmp.AllowUnexported(span{}))
		require.Equal(t, tt.name+", whole", tt.whole, whole)
	}
}

// TestIsCode: by the first bytes, and assembly by its name.
func TestIsCode(t *testing.T) {
	for name, text := range map[string]string{"elf": "\x7fELF", "archive": archiveMagic, "thin": thinMagic, "a.s": "nop\n"} {
		require.Equal(t, name, true, IsCode(require.File(t, name, text)))
	}
	for name, text := range map[string]string{"rows.csv": "hex\n90\n", "short": "!", "empty": ""} {
		require.Equal(t, name, false, IsCode(require.File(t, name, text)))
	}
}

func TestReadCallgrind(t *testing.T) {
	p := require.Get(ReadProfile("testdata/callgrind.out"))(t)
	c := p.objects["/bin/none"].counts.(*exactCounts)
	require.Equal(t, "addresses", []uint64{0x1000, 0x1001, 0x1002}, c.addrs)
	require.Equal(t, "sums, lost, total", []uint64{0, 6, 8, 13, 4, 17}, append(c.sums, p.Lost, p.Total))
	text := string(require.Get(os.ReadFile("testdata/callgrind.out"))(t))
	simulated := strings.NewReplacer("events: Ir", "events: Ir D1mr Bcm", "0x1000 5", "0x1000 5 2", "-1 2", "-1 2 0 7").Replace(text)
	events := []string{"Bcm", "Ir", "D1mr"}
	profiles := require.Get(readEvents(events, require.File(t, "callgrind.out", simulated)))(t)
	for i, want := range [][]uint64{{0, 7}, {0, 6, 8, 13}, {0, 2}} {
		c := profiles[i].objects["/bin/none"].counts
		require.Equal(t, events[i], want, c.(*exactCounts).sums)
		require.Equal(t, events[i]+" is of executions", events[i] == "Ir", c.exact())
	}
	_, err := readEvents([]string{"Ir", "DLmr"}, require.File(t, "callgrind.out", simulated))
	require.Fails(t, "an event that it lacks", err, "it does not count DLmr")
	for _, bad := range []struct{ text, want string }{
		{"int main() { return 0; }\n", "not a file of callgrind's"},
		{"positions: line\n", "no addresses"},
		{"positions: instr\n0x1 5\n", "before any object"},
		{"positions: instr\nob=(7)\n", "(7) was not named"},
		{"positions: instr\nob=(7) /x\n0x1 many\n", `"many" is not a count`},
		{"positions: instr\nob=(7) /x\n0xg 1\n", `"0xg" is not an address`},
		{"positions: instr\nob=(7) /x\n0x1 0\n", "no instruction has a count"},
		{"", "no instruction has a count"},
	} {
		_, err := ReadCallgrind(require.File(t, "bad", bad.text))
		if in := (*InputError)(nil); !errors.As(err, &in) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: error %v, want one with %q", bad.text, err, bad.want)
		}
	}
}

// TestByFunction: several counts in one pass, by function or, in a file with marks, by region; what cannot be read is left out.
func TestByFunction(t *testing.T) {
	plain := tinyelf.Write(t, bytes.Repeat([]byte{0x90}, 8), tinyelf.Symbol{Name: "f"}, tinyelf.Symbol{Name: "_Z1gv", Offset: 4})
	marked := tinyelf.Write(t, slices.Concat(markBegin, bytes.Repeat([]byte{0x90}, 4), markEnd), tinyelf.Symbol{Name: "f"})
	counts := func(plainCounts, markedCounts map[uint64]uint64) *Profile {
		return &Profile{objects: map[string]objectCounts{plain: {plain, newExactCounts(plainCounts, true)},
			marked: {marked, newExactCounts(markedCounts, true)}, "/none": {"/none", newExactCounts(map[uint64]uint64{1: 1}, true)}}}
	}
	const at = tinyelf.Base
	profiles := []*Profile{counts(map[uint64]uint64{at: 1, at + 3: 2, at + 4: 4}, map[uint64]uint64{at: 7}),
		counts(map[uint64]uint64{at + 7: 8}, map[uint64]uint64{at + uint64(len(markBegin)): 9})}
	got := map[string][]uint64{}
	require.NoError(t, ByFunction(t.Context(), profiles, func(file, function string, counts []uint64) { got[file+" "+function] = counts }))
	require.Equal(t, "counts", map[string][]uint64{plain + " f": {3, 0}, plain + " g()": {4, 8}, marked + " region 1": {0, 9}}, got)
}

// TestReadPerf: addresses are translated to those of the mapped file, and branch records count the instructions
// between two branches.
func TestReadPerf(t *testing.T) {
	path := tinyelf.Write(t, []byte{0x89, 0xc8, 0x89, 0xd0, 0xeb, 0xfa}, tinyelf.Symbol{Name: "f"})
	mapped := fmt.Sprintf("a b 7/7 1.0: PERF_RECORD_MMAP2 7/7: [0x7f0000001000(0x1000) @ 0x1000 fe:00 1 0]: r-xp %s\n", path)
	samples := mapped + `a b 7/7 2.0: 1000 cpu-clock:u: 7f0000001002 f+0x2 (x)
a b 7/7 2.0: 1000 cpu-clock:u: 7f0000001002
a b 7/7 2.0: 1000 cpu-clock:u: 10
a b 8/8 2.0: 1000 cycles:u:
	7f0000001000 f
	7f0000001002 g

`
	p := require.Get(ReadProfile(require.File(t, "perf", samples)))(t)
	c := p.objects[path].counts
	require.Equal(t, "samples", []uint64{1, 2, 3},
		[]uint64{c.between(tinyelf.Base, tinyelf.Base+2), c.between(tinyelf.Base+2, tinyelf.Base+4), p.Total})
	require.Equal(t, "samples alone", true, p.Samples)
	stack := mapped + "a b 7/7 2.0: 1 cycles:u: 7f0000001004 0x7f0000001004/0x7f0000001000/P/-/-/5 " +
		"0x7f0000001004/0x7f0000001000/M/-/-/2/COND/- 0x7f0000001004/0x7f0000001000/P/-/-/0 " +
		"0x7f0000001004/0x7f0000001002/P/-/-/9\n"
	p = require.Get(ReadPerf(require.File(t, "perf", stack)))(t)
	c = p.objects[path].counts
	require.Equal(t, "branches", []uint64{2, 3, 3, 0},
		[]uint64{c.at(tinyelf.Base), c.at(tinyelf.Base + 2), c.at(tinyelf.Base + 4), c.at(tinyelf.Base + 5)})
	require.Equal(t, "samples alone", false, p.Samples)
	require.Equal(t, "cycles", []Timed{{7, 2}, {}},
		[]Timed{timed(c, tinyelf.Base, tinyelf.Base+4), timed(c, tinyelf.Base+2, tinyelf.Base+4)})
	var out strings.Builder
	require.Get(Write(t.Context(), &out, []string{path}, Options{Cut: CutTransfer, Min: 1, Profile: p}))(t)
	if !strings.Contains(out.String(), ",cycles_in_place\n") || !strings.Contains(out.String(), ",3.5000\n") {
		t.Error(out.String())
	}
	for _, bad := range []string{"", "text\n", mapped, "PERF_RECORD_MMAP2 x\n", "a\x00b"} {
		if _, err := ReadPerf(require.File(t, "perf", bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	_, err := ReadProfile(require.File(t, "neither", "text\n"))
	if want := "; write it by valgrind --tool=callgrind --dump-instr=yes or perf script --show-mmap-events"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a profile of neither tool: %v, want %q", err, want)
	}
}

func TestLabel(t *testing.T) {
	got, names := require.Get2(label("f.s", "nop\n# LLVM-MCA-BEGIN one\nnop # LLVM-MCA-END\n// OSACA-BEGIN\n nop\n# OSACA-END\n"))(t)
	want := "nop\n; bbprof.begin.0:\nnop ; bbprof.end.0:\n; bbprof.begin.1:\n nop\n; bbprof.end.1:\n"
	require.Equal(t, "it", want, got)
	require.Equal(t, "it", []string{"one", "region 2"}, names)
	for _, bad := range []string{"# LLVM-MCA-END\n", "# LLVM-MCA-BEGIN\n", "# OSACA-BEGIN\n# OSACA-BEGIN\n"} {
		if _, _, err := label("f.s", bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// ar writes an archive.
func ar(members ...[2]string) []byte {
	out := []byte(archiveMagic)
	for _, m := range members {
		out = fmt.Appendf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", m[0], 0, 0, 0, "644", len(m[1]), m[1])
		if len(out)%2 != 0 {
			out = append(out, '\n')
		}
	}
	return out
}

func TestArchive(t *testing.T) {
	const object = "\x7fELF and more"
	data := ar([2]string{"/", "symbols"}, [2]string{"//", "a_long_name_of_a_member.o/\nother.o/\n"},
		[2]string{"a.o/", object}, [2]string{"/0", object + "."}, [2]string{"/27", object}, [2]string{"text/", "none"})
	var got []string
	list := func(data []byte) error {
		got = nil
		return archive("x.a", bytes.NewReader(data), func(name string, r io.ReaderAt, _ []string) error {
			got = append(got, name)
			return nil
		})
	}
	require.NoError(t, list(data))
	require.Equal(t, "it", []string{"x.a(a.o)", "x.a(a_long_name_of_a_member.o)", "x.a(other.o)"}, got)
	for _, cut := range []int{10, 67, 80, len(data) - 3} {
		if err := list(data[:cut]); err == nil {
			t.Errorf("cut at %d of %d: no error", cut, len(data))
		}
	}
}

// extractBytes runs a whole extraction over a file in memory.
func extractBytes(data []byte) error {
	one := func(name string, r io.ReaderAt, marks []string) error {
		o, err := openObject(name, r, marks, new(Stats))
		if err != nil {
			return err
		}
		return o.extract(Options{Cut: CutLeader}, nil, func(*Block) error { return nil })
	}
	if r := bytes.NewReader(data); isArchive(r) {
		return archive("fuzz", r, one)
	}
	return one("fuzz", bytes.NewReader(data), nil)
}

func FuzzExtract(f *testing.F) {
	f.Add(tinyelf.File([]byte{0x89, 0xc8, 0x75, 0xfc, 0xc3}, tinyelf.Symbol{Name: "f"}))
	f.Add(ar([2]string{"a.o/", string(tinyelf.File([]byte{0xc3}, tinyelf.Symbol{Name: "g"}))}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := extractBytes(data); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %v", err)
		}
	})
}

func FuzzFrameSpans(f *testing.F) {
	f.Add(frames("zR", [2]int32{-0x2000, 16}), uint64(0x3000))
	f.Add(frames("zPLRS", [2]int32{-0x2000, 16}), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		spans, _ := frameSpans(data, addr)
		for _, s := range spans {
			if s.lo >= s.hi {
				t.Errorf("%#x-%#x is no range", s.lo, s.hi)
			}
		}
	})
}

func FuzzCallgrind(f *testing.F) {
	f.Add(string(require.Get(os.ReadFile("testdata/callgrind.out"))(f)))
	f.Fuzz(func(t *testing.T, text string) {
		r := newCallgrindReader([]string{executed}, map[string][]map[uint64]uint64{})
		for line := range strings.Lines(text) {
			if r.take(strings.TrimRight(line, "\n")) != nil {
				return
			}
		}
	})
}

func FuzzPerf(f *testing.F) {
	f.Add("a 7/7 1.0: PERF_RECORD_MMAP2 7/7: [0x7f0000001000(0x1000) @ 0x1000 fe:00 1 0]: r-xp /bin/none\na 7/7 2.0: 1 " +
		"c:u: 7f0000001004 0x7f0000001004/0x7f0000001000/P\n")
	f.Fuzz(func(t *testing.T, text string) {
		p := perfReader{maps: map[string][]mapping{}, files: map[string]*perfFile{}}
		for line := range strings.Lines(text) {
			if p.take(strings.TrimRight(line, "\n")) != nil {
				return
			}
		}
		p.profile("fuzz")
	})
}
