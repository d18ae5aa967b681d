package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/replay"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type replayResult struct {
	visits    int
	blocks    map[string]bool
	identical int
	rejected  map[verdict.Reason]int
	different []difference
}

type difference struct {
	state, hex, function string
	what                 []string
}

func (c *captureCmd) verifyFile(std cli.Streams) error {
	file, err := states.Open(c.verify)
	if err != nil {
		return cli.Usage(err)
	}
	defer file.Close()
	out := cli.Output{Quiet: c.quiet}
	return measuring.WithProfiler(profiler.Options{CPUs: c.options.CPUs}, func(ctx context.Context, p *profiler.Profiler) error {
		all, err := replayAll(ctx, p, c.verify, file)
		if err != nil {
			return err
		}
		return out.Reject(std, len(all.different) > 0, nil, all.report())
	})
}

func replayAll(ctx context.Context, p *profiler.Profiler, name string, file *states.Reader) (*replayResult, error) {
	r := &replayResult{blocks: map[string]bool{}, rejected: map[verdict.Reason]int{}}
	for _, entry := range file.Index() {
		visit, err := file.At(entry.ID)
		if err != nil {
			return nil, cli.Usage(err)
		}
		where := fmt.Sprintf("%s#%d", name, entry.ID)
		code, err := asm.ParseHex(entry.Hex, profiler.MaxBlock)
		if err != nil {
			return nil, cli.BadUsage("%s: %w", where, err)
		}
		outcome, err := replay.Check(ctx, p, code, &visit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		r.visits++
		r.blocks[fmt.Sprintf("%s %x", entry.File, entry.Address)] = true
		switch {
		case outcome.Rejection != nil:
			r.rejected[outcome.Rejection.Reason]++
		case len(outcome.Differences) > 0:
			r.different = append(r.different, difference{where, entry.Hex, entry.Function, outcome.Differences})
		default:
			r.identical++
		}
	}
	return r, nil
}

func (r *replayResult) report() string {
	const listed = 20
	var out strings.Builder
	t := cli.NewTable("l", "visits", fmt.Sprintf("%d of %d blocks", r.visits, len(r.blocks)))
	t.Row("identical", fmt.Sprint(r.identical))
	t.Row("different", fmt.Sprint(len(r.different)))
	if rejected := cli.Frequent(r.rejected); len(rejected) > 0 {
		t.Row("rejected", strings.Join(rejected, ", "))
	}
	out.WriteString(t.String())
	for _, d := range r.different[:min(listed, len(r.different))] {
		fmt.Fprintf(&out, "%s  %s  %s\n", d.state, d.function, d.hex)
		for _, what := range d.what {
			fmt.Fprintf(&out, "    %s\n", what)
		}
	}
	return out.String()
}
