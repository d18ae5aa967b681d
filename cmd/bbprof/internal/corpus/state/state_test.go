package state

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
)

// about describes the tests' files.
var about = About{Program: []string{"prog", "a"}, CPU: "a CPU", Seed: 7, Samples: 3}

// whole compares pages at once, because byte by byte takes long.
var whole = cmp.Comparer(func(a, b initial.Page) bool { return a == b })

// randomState has n pages with few distinct contents.
func randomState(rng *rand.Rand, n int) initial.Captured {
	c := initial.Captured{State: initial.State{Name: "captured", FSBase: rng.Uint64(), Flags: 0x41,
		Fill: initial.Paper().Fill, MXCSR: 0x1f80}, Address: rng.Uint64()}
	for i := range c.GPR {
		c.GPR[i] = rng.Uint64()
	}
	c.X87.Registers[3][9] = 0x3f
	for i, bits := range []int{128, 256, 512} {
		v := initial.Vector{Reg: 10 * (i + 1), Bits: bits}
		v.Words[bits/64-1] = rng.Uint64() | 1
		c.Vectors = append(c.Vectors, v)
	}
	for i := range n {
		p := initial.Page{Address: uint64(i+1) << 12, Writable: i%2 == 0}
		p.Data[rng.IntN(3)] = byte(rng.IntN(3))
		c.Pages = append(c.Pages, p)
	}
	return c
}

func visits(n int) (all []Visit) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		v := Visit{Entry: Entry{Hex: "90", File: "/bin/a,b", Function: "f(\"x\")", Offset: 0x1000, Address: 0x401000, Visit: uint64(i), Visits: 100}}
		v.Before, v.After = randomState(rng, i%5), randomState(rng, i%3)
		all = append(all, v)
	}
	return all
}

// written returns a file with these visits.
func written(t testing.TB, all []Visit) []byte {
	t.Helper()
	var b bytes.Buffer
	w := require.Get(NewWriter(&b, about))(t)
	for i := range all {
		require.NoError(t, w.Add(&all[i]))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func read(file []byte) (all []Visit, r *Reader, err error) {
	r, err = NewReader("f", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, nil, err
	}
	for id := range r.Index() {
		v, err := r.At(id + 1)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, v)
	}
	return all, r, nil
}

// TestRoundTrip: visits are read back as written, in any order, and equal pages are stored once.
func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, fullVisits - 1, fullVisits, fullVisits + 1, fullVisits + 7} {
		want := visits(n)
		file := written(t, want)
		got, r := require.Get2(read(file))(t)
		require.Equal(t, fmt.Sprintf("%d visits", n), want, got, whole)
		require.Equal(t, "it", about, r.About())
		for range min(n, 20) {
			id := rand.IntN(n) + 1
			if v, err := r.At(id); err != nil || !cmp.Equal(v, want[id-1], whole) {
				t.Errorf("state %d of %d: %v", id, n, err)
			}
		}
		if n > 0 && !bytes.Equal(file, written(t, want)) {
			t.Error("the same visits give another file")
		}
		pages := 0
		for _, c := range r.chunks {
			pages += c.pages
		}
		if pages > 7 { // zero, or 1 or 2 at one of three offsets
			t.Errorf("%d visits: %d pages are stored", n, pages)
		}
		for _, id := range []int{0, -1, n + 1} {
			if _, err := r.At(id); err == nil {
				t.Errorf("there is a state %d of %d", id, n)
			}
		}
	}
}

// TestDistinctPages: a visit with the maximum number of pages, all different.
func TestDistinctPages(t *testing.T) {
	all := visits(4)
	for i := range all {
		for _, c := range []*initial.Captured{&all[i].Before, &all[i].After} {
			c.Pages = nil
			for n := range maxPages {
				p := initial.Page{Address: uint64(n) << 12}
				p.Data[0], p.Data[1], p.Data[2] = byte(n), byte(i), byte(n>>8)
				if c == &all[i].After {
					p.Data[3] = 1
				}
				c.Pages = append(c.Pages, p)
			}
		}
	}
	got, _ := require.Get2(read(written(t, all)))(t)
	require.Equal(t, "it", all, got, whole)
	w := require.Get(NewWriter(&bytes.Buffer{}, about))(t)
	all[0].Before.Pages = append(all[0].Before.Pages, initial.Page{Address: maxPages << 12})
	if err := w.Add(&all[0]); err == nil {
		t.Error("a page too many is taken")
	}
}

// TestDamage: a check covers each byte of a file, and its end.
func TestDamage(t *testing.T) {
	want := visits(3)
	file := written(t, want)
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 1 << (i % 8)
		got, _, err := read(bad)
		if err != nil && !errors.As(err, new(*words.Error)) || err == nil && !cmp.Equal(got, want, whole) {
			t.Fatalf("byte %d of %d: %T %v, or read as another", i, len(file), err, err)
		}
	}
	for n := range file {
		if _, _, err := read(file[:n]); !errors.As(err, new(*words.Error)) {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
	}
	if _, _, err := read(archive(t, `{"version":3}`, "", "", 0, 0)); err == nil || !strings.Contains(err.Error(), "version 3") {
		t.Error(err)
	}
}

// TestCreate: only the owner may read the file, and it appears when complete.
func TestCreate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := require.Get(Create(name, about))(t)
	require.NoError(t, f.Add(&visits(1)[0]))
	if _, err := os.Stat(name); err == nil {
		t.Error("it is there before it is whole")
	}
	require.NoError(t, f.Close())
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	r := require.Get(Open(name))(t)
	defer r.Close()
	var b strings.Builder
	if err := r.WriteIndex(&b); err != nil || !strings.HasSuffix(b.String(), "\n90,"+name+"#1,\"/bin/a,b\",\"f(\"\"x\"\")\",0x401000,0x1000,0,100,0,0,,\n") {
		t.Errorf("%s %v", b.String(), err)
	}
	require.Get(Create(name, about))(t).Abort()
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "f.cap*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, bad := range []string{filepath.Join(name, "x"), filepath.Dir(name), "state_test.go", os.DevNull} {
		if _, err := Open(bad); err == nil || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// archive makes a file with arbitrary contents and correct checksums.
func archive(t testing.TB, about, chunk, index string, visits, pages int) []byte {
	var b bytes.Buffer
	w := Writer{zip: zip.NewWriter(&b)}
	require.NoError(t, w.put(aboutFile, []byte(about)))
	if chunk != "" {
		require.NoError(t, w.put(fmt.Sprintf(chunkFile, visits, pages), []byte(chunk)))
	}
	require.NoError(t, errors.Join(w.put(indexFile, []byte(index)), w.zip.Close()))
	return b.Bytes()
}

// FuzzRead: reading any file ends in a *words.Error or in visits, within memory bounded by its size.
func FuzzRead(f *testing.F) {
	var w Writer
	for _, v := range visits(3) {
		for _, c := range []*initial.Captured{&v.Before, &v.After} {
			r, _ := registersOf(c)
			w.visits, _ = binary.Append(w.visits, binary.LittleEndian, &r)
			w.visits = binary.LittleEndian.AppendUint32(w.visits, 0)
		}
	}
	f.Add(`{"version":2}`, string(w.visits), `[{"state":1,"hex":"90"},{"state":2},{"state":3,"file":"f"}]`, 3, 0)
	f.Add(`{"version":2,"program":["a"]}`, "", "[]", 0, 0)
	f.Fuzz(func(t *testing.T, about, chunk, index string, visits, pages int) {
		file := archive(t, about, chunk, index, visits, pages)
		for range 2 {
			if _, _, err := read(file); err != nil && !errors.As(err, new(*words.Error)) {
				t.Errorf("%T: %v", err, err)
			}
			file[len(chunk)%len(file)] ^= byte(len(index))
		}
	})
}
