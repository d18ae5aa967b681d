package link

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/require"
)

func TestCommand(t *testing.T) {
	v := Variant{Number: 3, Seed: 7, Objects: []string{"c.o", "a.o"}}
	for _, row := range require.Table(t, "commands.txt") {
		got := Recipe{Side: "-a", Words: strings.Fields(row[0]), Preset: Preset(row[1])}.command(v, "OUT", "LLD")
		require.Equal(t, row[0], row[2], strings.Join(got, " "))
	}
}

func TestCheck(t *testing.T) {
	for _, row := range require.Table(t, "checks.txt") {
		err := Recipe{Side: "-a", Words: strings.Fields(row[0]), Preset: Preset(row[1])}.Check(row[2] == "objects")
		if want := row[3]; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", row[0], err, want)
		}
	}
}

func TestVariants(t *testing.T) {
	objects := []string{"main.o", "b.o", "c.o", "a.o", "d.o", "e.o"}
	long, short := Variants(200, 5, objects), Variants(3, 5, objects)
	require.Equal(t, "the first variants of a seed depend on how many there are", long[:3], short)
	if cmp.Equal(short, Variants(3, 6, objects)) {
		t.Error("two seeds make the same variants")
	}
	sorted := slices.Sorted(slices.Values(objects))
	if given, second := long[0], long[1]; given.Order != "given" || !slices.Equal(given.Objects, objects) ||
		second.Order != "alphabetical" || !slices.Equal(second.Objects, sorted) {
		t.Errorf("the first variants are %+v and %+v", given, second)
	}
	orders, seeds := map[string]bool{}, map[uint32]bool{}
	for i, v := range long {
		if v.Number != i+1 || v.Seed == 0 || v.Seed >= 1<<31 || !slices.Equal(slices.Sorted(slices.Values(v.Objects)), sorted) {
			t.Fatalf("variant %+v", v)
		}
		orders[strings.Join(v.Objects, " ")], seeds[v.Seed] = true, true
	}
	if len(orders) < 150 || len(seeds) < 200 {
		t.Errorf("%d orders and %d seeds in 200 variants", len(orders), len(seeds))
	}
}

// compile compiles two files with one function each and returns the directory.
func compile(t *testing.T) string {
	t.Helper()
	gcc, dir := require.Tool(t, require.GCC, "gcc"), t.TempDir()
	for name, text := range map[string]string{
		"main.c": "int one(void), two(void); int main(int n, char **v) { return one() + two() != 3 || n > 1; }",
		"one.c":  "int more = 1; int one(void) { return more; }",
		"two.c":  "int much = 2; int two(void) { return much; }",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		c := exec.Command(gcc, "-ffunction-sections", "-fdata-sections", "-c", name)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			require.Skip(t, require.GCC, "it does not compile: %v: %s", err, out)
		}
	}
	return dir
}

// linked links some variants and returns some symbols' addresses in each program.
func linked(t *testing.T, r Recipe, variants []Variant) (addresses [][]uint64) {
	t.Helper()
	l := require.Get(NewLinker())(t)
	defer l.Close()
	told := 0
	commands := require.Get(l.Link(context.Background(), r, variants, []string{"argument"}, func(n int) { told = n }))(t)
	if told != len(variants) || len(commands) != told {
		t.Errorf("%d programs, told %d, want %d", len(commands), told, len(variants))
	}
	for _, c := range commands {
		if len(c.Exe.Path) != pathLength || c.Name != c.Exe.Path || !slices.Equal(c.Args, []string{"argument"}) {
			t.Errorf("the program is %+v", c)
		}
		if err := exec.Command(c.Exe.Path).Run(); err != nil {
			t.Errorf("%s: %v", c.Exe.Path, err)
		}
		addresses = append(addresses, symbols(t, c.Exe.Path, "main", "one", "two", "more", "much"))
	}
	return addresses
}

func symbols(t *testing.T, path string, names ...string) []uint64 {
	t.Helper()
	f := require.Get(elf.Open(path))(t)
	defer f.Close()
	all := require.Get(f.Symbols())(t)
	at := make([]uint64, len(names))
	for _, s := range all {
		if i := slices.Index(names, s.Name); i >= 0 {
			at[i] = s.Value
		}
	}
	return at
}

func TestObjectOrder(t *testing.T) {
	dir := compile(t)
	objects := []string{"main.o", "two.o", "one.o"}
	r := Recipe{Side: "-a", Words: []string{"gcc", "-o", "{out}", dir + "/{objects}"}}
	at := linked(t, r, Variants(2, 1, objects))
	if given, alphabetical := at[0][:3], at[1][:3]; !slices.IsSorted(alphabetical) ||
		!slices.IsSorted([]uint64{given[0], given[2], given[1]}) {
		t.Errorf("main, one and two are at %#x as given, and at %#x in alphabetical order", given, alphabetical)
	}
}

// TestLLD: each preset moves functions and data, through a compiler and with lld itself, reproducibly by seed.
func TestLLD(t *testing.T) {
	dir := compile(t)
	if _, err := findLLD(); err != nil {
		require.Skip(t, require.LLVM, "%v", err)
	}
	for _, preset := range Presets() {
		r := Recipe{Side: "-a", Words: []string{"gcc", "-o", "{out}", dir + "/main.o", dir + "/one.o", dir + "/two.o"}, Preset: preset}
		at := linked(t, r, Variants(5, 1, nil))
		functions, data := map[[2]uint64]bool{}, map[[2]uint64]bool{}
		for _, a := range at {
			functions[[2]uint64{a[1], a[2]}], data[[2]uint64{a[3], a[4]}] = true, true
		}
		if len(functions) < 2 || len(data) < 2 {
			t.Errorf("%s: in 5 links functions are at %d places and data at %d", preset, len(functions), len(data))
		}
		require.Equal(t, fmt.Sprintf("%s: the same seeds, linked again", preset), at[:2], linked(t, r, Variants(2, 1, nil)))
	}
}

func TestLinkFails(t *testing.T) {
	gcc := require.Tool(t, require.GCC, "gcc")
	for _, c := range []struct {
		words string
		want  string
	}{
		{gcc + " -o {out} -L{seed} nothing-there.o", "-b: layout 1 does not link: exit status 1: " + gcc + " -o /"},
		{gcc + " -o {out} -L{seed} nothing-there.o", "nothing-there.o: No such file"}, // its own message
		{"no-such-linker {out} {seed}", "-b: there is no program no-such-linker"},
		{"true {out} {seed}", "-b: layout 1 is not a program that can be run"},
		{"cp /bin/true {out}", "-b: all 3 links give the same program"},
	} {
		l := require.Get(NewLinker())(t)
		_, err := l.Link(context.Background(), Recipe{Side: "-b", Words: strings.Fields(c.words)}, Variants(3, 1, nil), nil, func(int) {})
		require.FailsAs[*launch.Error](t, err, c.want)
		l.Close()
		if _, err := os.Stat(l.dir); err == nil {
			t.Errorf("%s is left", l.dir)
		}
	}
}

// TestLinkInterrupted: processes started by a command line end with it. The pipe ends with the last of them.
func TestLinkInterrupted(t *testing.T) {
	l := require.Get(NewLinker())(t)
	defer l.Close()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	wrote := make(chan []byte)
	go func() {
		defer close(wrote)
		f, _ := os.Open(pipe)
		defer f.Close()
		f.Read(make([]byte, 1)) // a child has begun
		cancel()
		text, _ := io.ReadAll(f)
		wrote <- text
	}()
	_, err := l.Link(ctx, Recipe{Side: "-a", Words: []string{"sh", "-c",
		"sh -c 'printf .; sleep 60; printf went on' >" + pipe + "; : {out} {seed}"}}, Variants(2, 1, nil), nil, func(int) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	require.Equal(t, "what a child wrote later", "", string(<-wrote))
}
