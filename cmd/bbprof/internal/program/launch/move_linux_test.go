package launch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/require"
)

// places are the addresses that places.c prints.
type places struct{ Main, Static, Heap, First, Second, Stack, Library uint64 }

// moved are the places in another set-up.
func (p places) moved(s Setup) places {
	heap, image := uint64(s.HeapShift), uint64(s.ImageShift)
	p.Main, p.Static = p.Main-image, p.Static-image
	p.Stack -= uint64(s.EnvBytes + s.StackShift)
	p.Heap, p.First, p.Second = p.Heap+heap, p.First+heap, p.Second+heap
	return p
}

// compiled compiles a C source of testdata.
func compiled(t *testing.T, source string, flags ...string) Command {
	t.Helper()
	c := require.Get(NewCommand([]string{require.Compiled(t, "testdata/"+source, append(flags, "-O1")...)}))(t)
	c.CleanEnv = true
	return c
}

// where runs places.c.
func where(t *testing.T, c Command, s Setup) (p places) {
	t.Helper()
	var said bytes.Buffer
	r, err := NewRunner(Options{Control: Control{Stderr: &said}})
	require.Host(t, err)
	if err := r.WarmUp(context.Background(), c, s); err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	if _, err := fmt.Sscanf(said.String(), "%v %v %v %v %v %v %v", &p.Main, &p.Static, &p.Heap, &p.First, &p.Second, &p.Stack, &p.Library); err != nil {
		t.Fatalf("%q: %v", said.String(), err)
	}
	return p
}

// TestMoves: each change of a set-up moves what it says, and nothing else.
func TestMoves(t *testing.T) {
	request := Request{Number: 2, Bytes: 2000}
	setups := []Setup{{}, {EnvBytes: 16}, {EnvBytes: 4096}, {EnvBytes: 100_000}, {StackShift: 16}, {StackShift: 8176}, {EnvBytes: 32, StackShift: 64},
		{HeapShift: 16}, {HeapShift: 4080}, {HeapShift: 1 << 20}, {Request: request}, {ImageShift: 0x111000}}
	c := compiled(t, "places.c")
	usual := where(t, c, Setup{})
	for _, s := range setups {
		require.Equal(t, fmt.Sprintf("%+v", s), usual.moved(s), where(t, c, s))
	}
	// Not a multiple of 16: rounded down.
	if down := usual.Stack - where(t, c, Setup{EnvBytes: 17}).Stack; down != 16 && down != 32 {
		t.Errorf("17 bytes move the stack by %d", down)
	}
	request.Align = 2048
	got, want := where(t, c, Setup{Request: request}), usual
	if want.Second = got.Second; got != want || got.Second%2048 != 0 {
		t.Errorf("a block moved: %s", cmp.Diff(want, got))
	}
	// Of a static program, the C library has allocated below malloc's blocks, and its end is aligned.
	c = compiled(t, "places.c", "-static")
	usual = where(t, c, Setup{})
	for _, s := range setups[:len(setups)-2] {
		got := where(t, c, s)
		require.Equal(t, fmt.Sprintf("%+v of -static", s), uint64(s.HeapShift), got.First-usual.First)
		require.Equal(t, fmt.Sprintf("%+v of -static", s), uint64(s.EnvBytes+s.StackShift), usual.Stack-got.Stack)
	}
}

// TestCannotMove: what cannot be moved is reported with the reason.
func TestCannotMove(t *testing.T) {
	r, err := NewRunner(Options{})
	require.Host(t, err)
	for _, one := range []struct {
		flags []string
		setup Setup
		want  string
	}{
		{nil, Setup{Request: Request{Number: 2, Bytes: 2001}}, "asks for 2000 bytes now, and asked for 2001"},
		{nil, Setup{Request: Request{Number: 9000, Bytes: 1}}, "there is no call 9000 of malloc"},
		{[]string{"-no-pie"}, Setup{ImageShift: 0x111000}, "cannot be moved at run time"},
		{[]string{"-static-pie"}, Setup{ImageShift: 0x111000}, "cannot be moved at run time"},
	} {
		_, err := r.Run(context.Background(), compiled(t, "places.c", one.flags...), one.setup)
		require.FailsAs[*Error](t, err, one.want)
	}
}

// TestEqualStack: neither the name of a program nor its arguments, the environment and what starts it move its stack,
// where two programs are to be compared; sizes of the environment and shifts do, by what they say.
func TestEqualStack(t *testing.T) {
	c := compiled(t, "places.c")
	text := require.Get(os.ReadFile(c.Exe.Path))(t)
	t.Chdir(t.TempDir())
	t.Setenv("OTHER", strings.Repeat("x", 333))
	var all []Command
	for _, letters := range []int{2, 7, 8, 60} {
		name := "./" + strings.Repeat("p", letters)
		require.NoError(t, os.WriteFile(name, text, 0o777))
		for _, line := range [][]string{{name}, {name, strings.Repeat("a", letters)},
			{"env", "Q=" + strings.Repeat("q", 3*letters), name}, {"sh", "-c", "exec " + name}} {
			c := require.Get(NewCommand(line))(t)
			c, _, err := c.Follow(t.Context(), Control{}, "")
			require.Host(t, err)
			clean := c
			clean.CleanEnv = true
			all = append(all, c, clean)
		}
	}
	usual := where(t, all[0], Setup{EqualStack: true}).Stack
	for i, c := range all {
		for _, s := range []Setup{{}, {EnvBytes: 1000}, {StackShift: 32}, {EnvBytes: 4095, StackShift: 8176}}[:1+3*(i%2)] {
			s.EqualStack = true
			want := usual - uint64((s.EnvBytes+15)/16*16+s.StackShift)
			require.Equal(t, fmt.Sprintf("%s %q, %+v", c.Name, c.Args, s), want, where(t, c, s).Stack)
		}
	}
	// Of more strings than a unit: at the same place in its page.
	c.Args = []string{strings.Repeat("a", 100_000)}
	require.Equal(t, "long arguments: lower by", uint64(stringsUnit), usual-where(t, c, Setup{EqualStack: true}).Stack)
}

// TestFromExec: the dynamic linker's time counts from exec, and only there.
func TestFromExec(t *testing.T) {
	c := compiled(t, "nothing.c")
	r, err := NewRunner(Options{})
	require.Host(t, err)
	require.AtMost(t, 1, 3, func() string {
		least := map[bool]float64{}
		for range 10 {
			for _, exec := range []bool{false, true} {
				sample := require.Get(r.Run(t.Context(), c, Setup{FromExec: exec}))(t)
				if least[exec] == 0 || sample < least[exec] {
					least[exec] = sample
				}
			}
		}
		if least[true] < 1.3*least[false] {
			return fmt.Sprintf("%v cycles from exec", least)
		}
		return ""
	})
}
