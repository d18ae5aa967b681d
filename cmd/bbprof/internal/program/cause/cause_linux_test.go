package cause

import (
	"context"
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
)

// TestMadeSlow: in a real program, the cause that was built in is confirmed and the other is not: see slow.c.
func TestMadeSlow(t *testing.T) {
	require.Slow(t)
	for _, c := range []struct {
		flag        string
		made, other int // index in the findings
	}{{"-DCODE", 4, 5}, {"-DBLOCKS", 5, 4}} {
		command := require.Get(launch.NewCommand([]string{require.Compiled(t, "testdata/slow.c", "-O1", "-fpie", "-pie", c.flag)}))(t)
		r, err := launch.NewRunner(launch.Options{})
		require.Host(t, err)
		w := trace.Window{Function: "work", Instructions: 400, Core: invariants.Core{L1DWays: 8, StoreBuffer: 64}, Blocks: true}
		p := Plan{Sizes: []int{0, 16, 32}, Runs: 1, Rounds: 16, Movable: command.Exe.Movable, Done: func(int) {},
			Trace: func(ctx context.Context, s launch.Setup) (trace.Counts, error) {
				return trace.Count(ctx, command, s, w)
			}}
		// Other work can hide a cause, and once in many runs look like one.
		require.AtMost(t, 1, 2, func() string {
			e := require.Get(Explain(context.Background(), r, command, p))(t)
			made, other := e.Findings[c.made], e.Findings[c.other]
			if made.Outcome == stat.Confirmed && other.Effect != nil && other.Outcome != stat.Confirmed {
				return ""
			}
			return fmt.Sprintf("%s: %+v, %+v; %+v, %+v", c.flag, made, made.Effect, other, other.Effect)
		})
	}
}
