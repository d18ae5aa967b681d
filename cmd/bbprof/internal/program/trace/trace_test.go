package trace

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
	"github.com/bbprof/bbprof/invariants"
)

var core = invariants.Core{L1DWays: 8, StoreBuffer: 64}

// calling is a program that calls its function f.
func calling(t *testing.T, f ...string) launch.Command {
	t.Helper()
	code := tinyelf.Asm("\xe8\x0c\x00\x00\x00", tinyelf.Exit(0), strings.Join(f, ""))
	return require.Get(launch.NewCommand([]string{tinyelf.Write(t, code, tinyelf.Symbol{Name: "f", Offset: 17})}))(t)
}

func count(t *testing.T, c launch.Command, s launch.Setup, w Window) (Counts, error) {
	t.Helper()
	w.Core = core
	counts, err := Count(context.Background(), c, s, w)
	require.Host(t, err)
	return counts, err
}

// TestKnownAccesses: each instruction of a window, and each rep iteration, makes its known accesses.
func TestKnownAccesses(t *testing.T) {
	c := calling(t,
		"\x48\x81\xe4\x00\xf0\xff\xff",     // and rsp,-4096
		"\x48\x89\x44\x24\x10",             // mov [rsp+0x10],rax
		"\x48\x8b\x44\x24\x10",             // mov rax,[rsp+0x10]: forwarded
		"\x48\x8b\x84\x24\x10\xf0\xff\xff", // mov rax,[rsp-0xff0]: aliases
		"\x48\x8b\x44\x24\x3c",             // mov rax,[rsp+0x3c]: across two lines
		"\x48\x8b\x44\x24\xfc",             // mov rax,[rsp-4]: across two pages
		"\xb9\x03\x00\x00\x00",             // mov ecx,3
		"\x48\x8d\x7c\x24\x80",             // lea rdi,[rsp-0x80]
		"\xf3\x48\xab",                     // rep stosq
		"\x90",
	)
	got := require.Get(count(t, c, launch.Setup{}, Window{Function: "f", Instructions: 9}))(t)
	if got.Instructions != 9 || got.Loads != 4 || got.Stores != 4 || got.Forwarded != 1 || got.Alias4K != 1 ||
		got.Splits != 2 || got.PageSplits != 1 || got.Pages != 2 || got.Lines != 5 {
		t.Errorf("%+v", got)
	}
	if len(got.Aliases) != 1 || got.Aliases[0].Load.What != "[stack]" || got.Aliases[0].Load.Addr+4096 != got.Aliases[0].Store.Addr {
		t.Errorf("%+v", got.Aliases)
	}
	_, err := count(t, c, launch.Setup{}, Window{Function: "g", Instructions: 9})
	require.FailsAs[*launch.Error](t, err, "no function is called g")
}

// TestStepped: progress is reported.
func TestStepped(t *testing.T) {
	c := calling(t, "\xeb\xfe") // jumps to itself
	var told []int
	require.Get(count(t, c, launch.Setup{}, Window{Function: "f", Instructions: 9000, Stepped: func(n int) { told = append(told, n) }}))(t)
	if !slices.Equal(told, []int{4096, 8192}) {
		t.Errorf("told %v", told)
	}
}

// TestEnvironment: over a page of environment sizes, exactly one gives the local variable the low 12 address bits of
// the static, and not that one where the program corrects it itself.
func TestEnvironment(t *testing.T) {
	require.Slow(t)
	var sizes []int
	for size := 0; size < 4096; size += 16 {
		sizes = append(sizes, size)
	}
	at := aliasing(t, sizes)
	if len(at) != 1 {
		t.Errorf("it aliases at %v", at)
	}
	require.Equal(t, "where the repaired one aliases, of these", []int(nil), aliasing(t, at, "-DFIXED"))
}

// aliasing compiles a program and returns those environment sizes at which it aliases.
func aliasing(t *testing.T, sizes []int, flags ...string) (at []int) {
	t.Helper()
	path := require.Compiled(t, "../../../../../testdata/programs/alias-chain.c", append(flags, "-O1")...)
	c := require.Get(launch.NewCommand([]string{path}))(t)
	c.CleanEnv = true
	const window = 60
	for _, size := range sizes {
		got := require.Get(count(t, c, launch.Setup{EnvBytes: size}, Window{Function: "main", Instructions: window}))(t)
		if got.Alias4K == 0 {
			continue
		}
		at = append(at, size)
		a := got.Aliases[0]
		if a.Load.What != "[stack]" || a.Store.What != "sink" || a.Load.Addr%4096 != a.Store.Addr%4096 ||
			!strings.HasPrefix(a.Load.Place, "main+") || a.Times < window/5 {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
	return at
}
