package cause

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
)

// madeSlow is twice as slow if two malloc blocks share address bits 4 to 11: a cause that works on any core.
const madeSlow = `
#include <stdint.h>
#include <stdlib.h>
static volatile long sum;
__attribute__((noinline, noclone)) static void work(volatile char *a, volatile char *b)
{
	int slow = 0;
	for (int i = 0; i < 64; i++) {
		a[i] = i;
		sum += b[i];
	}
	slow |= (((uintptr_t)a ^ (uintptr_t)b) & 0xff0) == 0;
	for (long i = 0; i < 500000L << slow; i++)
		sum += i;
}
int main(void)
{
	char *a = malloc(8192 - 16), *b = malloc(5000);
	work(a, b);
	free(a);
	free(b);
	return 0;
}
`

// TestMadeSlow: in a real program, the cause that was built in is confirmed and another is not.
func TestMadeSlow(t *testing.T) {
	require.Slow(t)
	source := filepath.Join(t.TempDir(), "slow.c")
	require.NoError(t, os.WriteFile(source, []byte(madeSlow), 0o644))
	command := require.Get(program.NewCommand([]string{require.Compiled(t, source, "-O1", "-fpie", "-pie")}))(t)
	r, err := program.NewRunner(program.Options{})
	require.Host(t, err)
	defer r.Close()
	w := trace.Window{Function: "work", Instructions: 400, Core: invariants.Core{L1DWays: 8, StoreBuffer: 64}, Timeout: time.Minute, Blocks: true}
	p := Plan{Sizes: []int{0, 16, 32}, Runs: 1, Rounds: 16, Done: func(int) {},
		Trace: func(ctx context.Context, s program.Setup) (trace.Counts, error) {
			return trace.Count(ctx, command, s, w)
		}}
	// Other work can hide a cause, and once in many runs look like one.
	require.AtMost(t, 1, 3, func() string {
		e := require.Get(Explain(context.Background(), r, command, p))(t)
		heap, blocks := e.Findings[3], e.Findings[4]
		if blocks.Outcome == stat.Confirmed && heap.Effect != nil && heap.Outcome != stat.Confirmed {
			return ""
		}
		return fmt.Sprintf("%+v, %+v; %+v, %+v", blocks, blocks.Effect, heap, heap.Effect)
	})
}
