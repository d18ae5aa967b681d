package study

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/bounds"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/profiler"
)

func boundsCommand() *cli.Command {
	return &cli.Command{
		Name:     "bounds",
		Summary:  "find what bounds a block",
		Synopsis: []string{"bounds [flags] -hex HEX  (a report)", "bounds [flags] FILE...   (a row for each distinct block of a corpus; - is standard input)"},
		About: `Nothing is modelled: the block is changed in one way at a time and measured again. Chains of
dependencies are cut; instructions of one class are added until the time grows; nops are added; each
instruction is left out. The first line names the bound:
  chain      cutting a chain of dependencies saves at least 2 % of the time
  memory     so does one that goes through a store and a load that waits for it
  class      no more work of a class is free, although slots are
  front_end  no slot is free
  branches   a loop of one taken branch a cycle
  none       none of these
`,
		Notes: "docs/bounds.md explains the report and the method.\n",
		Examples: `bbprof bounds -hex 480fafc0
bbprof bounds -o bounds.csv blocks.csv     bbprof score groups errors by column bound
`,
		Exits: cli.Exits("the block was measured, whatever the bound", "the block is rejected; the report says why",
			map[int]string{cli.ExitInterrupted: "interrupted; of files, the rows of blocks that were done are written"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			b := boundsCmd{Study: blockflags.Study{Opts: profiler.Options{Detail: true}}}
			b.Block.Add(f)
			f.Operands = &b.files
			f.Number(&b.workers, 0, "workers", "for files: blocks that are measured at once").Fallback = "0, which is one a core"
			b.Out.Add(f, "the report, or of a row")
			b.Plot.Add(f)
			blockflags.Flags(f, &b.Opts)
			return b.Out.Resumable(f, b.run)
		},
	}
}

type boundsCmd struct {
	blockflags.Study
	files   []string
	workers int // blocks of a corpus measured in parallel; 0 for one per core
}

func (b *boundsCmd) run(std cli.Streams) error {
	if err := blockflags.OneMode(&b.Opts, profiler.Loop); err != nil {
		return err
	}
	if err := b.OneOrFiles(b.files); err != nil {
		return err
	}
	var r cli.Rules
	r.Not(b.Block.Given() && b.Block.Flags.Has("workers"), "-workers is for files, and this is one block")
	r.Not(len(b.files) > 0 && len(b.Plot) > 0, "-plot is for one block: give it with -hex, or leave -plot out")
	if r.Err != nil {
		return r.Err
	}
	if len(b.files) > 0 {
		return b.corpus(std)
	}
	block, err := b.Block.Read(std)
	if err != nil {
		return err
	}
	return blockflags.WithProfiler(std, b.Opts, func(ctx context.Context, p *pool.Patient) error {
		got, err := bounds.Find(ctx, p, block, true)
		if err != nil {
			return err
		}
		return b.Show(std, got, boundsReport(got), got.Base, func() plot.Figure { return bounds.Figure(got) })
	})
}

func boundsReport(a bounds.Answer) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s\n%.3f cycles per iteration, 95 %% interval %.3f to %.3f\n", a.Sentence, a.Base.Cycles, a.Base.CILow, a.Base.CIHigh)
	if len(a.Chains) > 0 {
		fmt.Fprintf(&w, "\n%s", chainTable(a.Chains))
	}
	slack := cli.NewTable("lrrrrl", "class", "free", "room", "share", "slope", "probe")
	for _, s := range a.Slack {
		if s.Untested != "" {
			slack.Row(s.Class, "", "", "", "untested", s.Probe+"; "+s.Untested)
			continue
		}
		slack.Row(s.Class, fmt.Sprintf("%.2f to %.2f", s.FreeLow, s.FreeHigh), fmt.Sprintf("%.2f", s.Room),
			fmt.Sprintf("%.0f%%", 100*s.Share), fmt.Sprintf("%.3f", s.Slope), s.Probe)
	}
	fmt.Fprintf(&w, "\n%s", slack)
	fmt.Fprintf(&w, "\nfront end: %.2f instructions a cycle where all free slots are filled", a.FrontEnd.Slots)
	if t := a.FrontEnd.Row; t != nil {
		fmt.Fprintf(&w, "; in a row of copies %.3f cycles", t.Cycles)
	}
	if t := a.FrontEnd.Decoders; t != nil {
		fmt.Fprintf(&w, "; from the decoders %.3f", t.Cycles)
	}
	w.WriteString("\n")
	if len(a.Parts) > 0 {
		fmt.Fprintf(&w, "\n%s", partTable(a.Parts))
	}
	return w.String()
}

func chainTable(chains []bounds.ChainReport) *cli.Table {
	t := cli.NewTable("lll", "saved", "interval", "carried chain (documented latencies)")
	for _, c := range chains {
		saved, within, text := "untested", "", c.Text
		if c.Saved != nil {
			saved, within = fmt.Sprintf("%+.3f", c.Saved.Cycles), fmt.Sprintf("%+.3f to %+.3f", c.Saved.Low, c.Saved.High)
		} else {
			text += "; " + c.Untested
		}
		if c.Documented > 0 {
			text += fmt.Sprintf(": %.2f", c.Documented)
		}
		switch {
		case c.Together:
			text += "  ← binds; saved where all others are cut"
		case c.Binds:
			text += "  ← binds"
		case c.AsLong:
			text += "  ← as long as the time"
		}
		t.Row(saved, within, text)
	}
	return t
}

func partTable(parts []bounds.Part) *cli.Table {
	t := cli.NewTable("lrl", "saved", "", "without the instruction")
	for _, p := range parts {
		saved, text := "untested", p.Text
		if p.Saved == nil {
			text += "; " + p.Untested
		} else {
			saved = fmt.Sprintf("%+.3f", p.Saved.Cycles)
		}
		if p.Replaced != "" {
			text += "; " + p.Replaced + " instead"
		}
		t.Row(saved, strconv.Itoa(p.Instruction), text)
	}
	return t
}

func (b *boundsCmd) corpus(std cli.Streams) error {
	ctx, stop := cli.UntilSignal()
	defer stop()
	in, err := rowflags.OpenBlocks(b.files, std.In)
	if err != nil {
		return cli.Usage(err)
	}
	defer in.Close()
	identity := func(r input.Row) string { return batch.Identity(r.Code, r.At, r.Set.String()) }
	blocks, err := rowflags.DistinctRows(b.files, resultfile.Each(in.Next), identity, b.Out.Notes(std))
	if err != nil {
		return cli.Usage(err)
	}
	in.Ignored().Warn(std.Err)
	workers, err := blockflags.SomeWorkers(ctx, std, b.Opts, b.workers)
	if err != nil {
		return err
	}
	defer workers.Close()
	meter := cli.Progress(b.Out.Notes(std), len(blocks), "blocks")
	defer meter.End()
	return b.rows(ctx, workers.Profilers(), blocks, meter.Step, std)
}

// rows writes each block's row once all earlier ones are done; after an error, also those of blocks that are done.
func (b *boundsCmd) rows(ctx context.Context, measurers []pool.Profiler, blocks []input.Row, step func(n int), std cli.Streams) error {
	rows := 0
	var ended error
	err := b.Out.Stream(std, func(w io.Writer) error {
		lines, table := json.NewEncoder(w), csv.NewWriter(w)
		if !b.Out.JSON {
			table.Write(bounds.Columns()) // errors are kept for Error
		}
		ended = inOrder(ctx, measurers, blocks, b.Out.JSON, func(a bounds.Answer) error {
			rows++
			step(rows)
			if a.Base.Status == profiler.Failed {
				fmt.Fprintf(std.Err, "bbprof: block %s: %s\n", a.Base.Hex, a.Base.Failure)
			}
			if b.Out.JSON {
				return lines.Encode(a)
			}
			table.Write(a.Row())
			return table.Error()
		})
		if rows == 0 { // keep an existing file rather than replace it with nothing
			return ended
		}
		table.Flush()
		return table.Error()
	})
	if err == nil && ended != nil {
		fmt.Fprintf(std.Err, "bbprof: incomplete: %d of %s done and written\n", rows, words.Plural(len(blocks), "block"))
	}
	return cmp.Or(err, ended)
}

// inOrder analyses the blocks on all workers in parallel and passes the answers on in order. If an error ends it, it
// first passes on the answers it has.
func inOrder(ctx context.Context, workers []pool.Profiler, blocks []input.Row, parts bool, done func(bounds.Answer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]chan bounds.Answer, len(blocks)) // each gets one answer, or is closed without
	next := make(chan int, len(blocks))
	for i := range blocks {
		answers[i] = make(chan bounds.Answer, 1)
		next <- i
	}
	close(next)
	var running sync.WaitGroup
	defer running.Wait()
	for _, p := range workers {
		running.Go(func() {
			for i := range next {
				if ctx.Err() == nil {
					if a, err := bounds.Find(ctx, p, blocks[i].Block(), parts); err != nil {
						cancel(err)
					} else {
						answers[i] <- a
					}
				}
				close(answers[i])
			}
		})
	}
	for i := range answers {
		if a, there := <-answers[i]; there {
			if err := done(a); err != nil {
				cancel(err)
				return err
			}
		}
	}
	return context.Cause(ctx)
}
