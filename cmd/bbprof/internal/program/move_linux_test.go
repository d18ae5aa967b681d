package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/require"
)

// places holds the addresses of a TestMoves program's objects.
type places struct{ Main, Static, Heap, First, Second, Stack, Library uint64 }

const placesSource = `
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <errno.h>
static int counter;
int main(int argc, char **argv)
{
	char *heap = sbrk(0);
	char *first = malloc(1000), *second = malloc(argc > 1 ? 3000 : 2000);
	second[1999] = 1;
	fprintf(stderr, "%p %p %p %p %p %p %p\n", main, &counter, heap, first, second, argv, (void *)puts);
	free(first);
	free(second);
	char *again = realloc(malloc(2000), 100000);
	again[99999] = 1;
	free(again);
	return counter;
}
`

// compiled compiles a C source.
func compiled(t *testing.T, source string, flags ...string) Command {
	t.Helper()
	gcc := require.Tool(t, require.GCC, "gcc")
	path := filepath.Join(t.TempDir(), "prog")
	require.NoError(t, os.WriteFile(path+".c", []byte(source), 0o644))
	if out, err := exec.Command(gcc, append(flags, "-O1", "-o", path, path+".c")...).CombinedOutput(); err != nil {
		require.Skip(t, require.GCC, "it does not compile: %v: %s", err, out)
	}
	c := require.Get(NewCommand([]string{path}))(t)
	c.CleanEnv = true
	return c
}

// where runs a program that prints the addresses of its objects on standard error.
func where(t *testing.T, c Command, s Setup) (p places) {
	t.Helper()
	var said bytes.Buffer
	r, err := NewRunner(Options{Stderr: &said})
	require.Host(t, err)
	defer r.Close()
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
	c := compiled(t, placesSource)
	usual := where(t, c, Setup{})
	want := usual
	want.Heap, want.First, want.Second = usual.Heap+64, usual.First+64, usual.Second+64
	if got := where(t, c, Setup{HeapShift: 64}); got != want {
		t.Errorf("the heap moved: %s", cmp.Diff(want, got))
	}
	want = usual
	if got := where(t, c, Setup{Request: Request{Number: 2, Bytes: 2000}}); got != want {
		t.Errorf("a block was stopped at: %s", cmp.Diff(want, got))
	}
	got := where(t, c, Setup{Request: Request{Number: 2, Bytes: 2000, Align: 2048}})
	if want.Second = got.Second; got != want || got.Second%2048 != 0 {
		t.Errorf("a block moved: %s", cmp.Diff(want, got))
	}
}

// TestCannotMove: what cannot be moved is reported with the reason.
func TestCannotMove(t *testing.T) {
	r, err := NewRunner(Options{})
	require.Host(t, err)
	defer r.Close()
	c := compiled(t, placesSource)
	for request, want := range map[Request]string{
		{Number: 2, Bytes: 2001}: "asks for 2000 bytes now, and asked for 2001",
		{Number: 9000, Bytes: 1}: "there is no call 9000 of malloc",
	} {
		_, err := r.Run(context.Background(), c, Setup{Request: request})
		is(t, err, want)
	}
}
