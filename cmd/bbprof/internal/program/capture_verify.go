package program

import (
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/replay"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func (c *captureCmd) verifyFile(std cli.Streams) error {
	file, err := states.Open(c.verify)
	if err != nil {
		return cli.Usage(err)
	}
	defer file.Close()
	out := cli.Output{Quiet: c.quiet}
	ctx, stop := cli.UntilSignal()
	defer stop()
	p, err := profiler.New(ctx, profiler.Options{CPUs: c.options.CPUs})
	if err != nil {
		return err
	}
	defer p.Close()
	report, differ, err := verify(ctx, p, c.verify, file)
	if err != nil {
		return err
	}
	return out.Reject(std, differ, nil, report)
}

// verify executes the visits of a file, and reports whether all end as in the program.
func verify(ctx context.Context, p *profiler.Profiler, name string, file *states.Reader) (report string, differ bool, err error) {
	const listed = 20
	blocks, rejected := map[string]bool{}, map[verdict.Reason]int{}
	identical, different := 0, 0
	var list strings.Builder
	for _, entry := range file.Index() {
		visit, err := file.At(entry.ID)
		if err != nil {
			return "", false, cli.Usage(err)
		}
		where := fmt.Sprintf("%s#%d", name, entry.ID)
		code, err := asm.ParseHex(entry.Hex, profiler.MaxBlock)
		if err != nil {
			return "", false, cli.BadUsage("%s: %w", where, err)
		}
		outcome, err := replay.Check(ctx, p, code, &visit)
		if err != nil {
			return "", false, fmt.Errorf("%s: %w", where, err)
		}
		blocks[fmt.Sprintf("%s %x", entry.File, entry.Address)] = true
		switch {
		case outcome.Rejection != nil:
			rejected[outcome.Rejection.Reason]++
		case len(outcome.Differences) == 0:
			identical++
		default:
			if different++; different <= listed {
				fmt.Fprintf(&list, "%s  %s  %s\n    %s\n", where, entry.Function, entry.Hex, strings.Join(outcome.Differences, "\n    "))
			}
		}
	}
	t := cli.NewTable("l", "visits", fmt.Sprintf("%d of %d blocks", len(file.Index()), len(blocks)))
	t.Row("identical", fmt.Sprint(identical))
	t.Row("different", fmt.Sprint(different))
	if reasons := words.Frequent(rejected); len(reasons) > 0 {
		t.Row("rejected", strings.Join(reasons, ", "))
	}
	return t.String() + list.String(), different > 0, nil
}
