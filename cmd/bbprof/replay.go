package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/replay"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func replayCommand() *command {
	return &command{
		name:     "replay",
		summary:  "execute captured visits once and compare with what the program made of them",
		synopsis: []string{"replay [flags] FILE...  (of bbprof capture)"},
		about: `Each visit of a block that bbprof capture has taken is executed once in bbprof's child: registers as
captured, each page at its own address, the block's rip-relative operands where they are in the
program. Registers, flags, x87 and vector state and every captured page are then held against what
the program had after the block, to the bit. Where they are equal, bbprof measures what the
program ran. Nothing is timed.

A visit is rejected where the block is: for a system call, or an instruction whose result is not the
state's alone, such as rdtsc.
`,
		examples: `bbprof capture -o gzip.states -- gzip -c FILE >/dev/null
bbprof replay gzip.states
`,
		exits: map[int]string{exitOK: "all visits were executed, or are rejected", exitRejected: "at least one differs", exitUsage: "",
			exitHost: "", exitInternal: "", exitInterrupted: "interrupted"},
		setup: func(f *flags) func(streams) error {
			r := replaying{top: 20}
			f.operands = &r.files
			r.out.add(f, "the report")
			f.number(&r.top, 0, "top", "list the first N differences")
			cpuFlag(f, &r.opts.CPUs, cpuHelp)
			return r.run
		},
	}
}

type replaying struct {
	files []string
	top   int
	opts  profiler.Options
	out   output
}

// replayed is what became of all visits of some files.
type replayed struct {
	Visits    int                    `json:"visits"`
	Blocks    int                    `json:"blocks"`
	Identical int                    `json:"identical"`
	Different int                    `json:"different"`
	Rejected  map[verdict.Reason]int `json:"rejected"`
	List      []difference           `json:"differences"`
}

// difference is a visit that ends otherwise than in the program.
type difference struct {
	State    string   `json:"state"`
	Hex      string   `json:"hex"`
	Function string   `json:"function"`
	What     []string `json:"what"`
}

func (r *replaying) run(std streams) error {
	if len(r.files) == 0 {
		return badUsage("name a file of bbprof capture")
	}
	return r.out.profiling(std, r.opts, func(ctx context.Context, p *profiler.Profiler) error {
		all := replayed{Rejected: map[verdict.Reason]int{}, List: []difference{}}
		for _, name := range r.files {
			if err := all.add(ctx, p, name); err != nil {
				return err
			}
		}
		return r.out.reject(std, all.Different > 0, all, all.report(r.top))
	})
}

func (r *replayed) add(ctx context.Context, p replay.Replayer, name string) error {
	file, err := states.Open(name)
	if err != nil {
		return &usageError{err}
	}
	defer file.Close()
	blocks := map[string]bool{}
	for _, entry := range file.Index() {
		visit, err := file.At(entry.ID)
		if err != nil {
			return &usageError{err}
		}
		where := fmt.Sprintf("%s#%d", name, entry.ID)
		code, err := asm.ParseHex(entry.Hex, profiler.MaxBlock)
		if err != nil {
			return badUsage("%s: %w", where, err)
		}
		outcome, err := replay.Check(ctx, p, code, &visit)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		blocks[fmt.Sprintf("%s %x", entry.File, entry.Address)] = true
		r.count(outcome, difference{where, entry.Hex, entry.Function, outcome.Differences})
	}
	r.Blocks += len(blocks)
	return nil
}

func (r *replayed) count(o replay.Outcome, d difference) {
	r.Visits++
	switch {
	case o.Rejection != nil:
		r.Rejected[o.Rejection.Reason]++
	case len(o.Differences) > 0:
		r.Different++
		r.List = append(r.List, d)
	default:
		r.Identical++
	}
}

func (r *replayed) report(top int) string {
	var out strings.Builder
	t := newTable("l", "visits", fmt.Sprintf("%d of %d blocks", r.Visits, r.Blocks))
	t.row("identical", fmt.Sprint(r.Identical))
	t.row("different", fmt.Sprint(r.Different))
	if rejected := frequent(r.Rejected); len(rejected) > 0 {
		t.row("rejected", strings.Join(rejected, ", "))
	}
	out.WriteString(t.String())
	for _, d := range r.List[:min(top, len(r.List))] {
		fmt.Fprintf(&out, "%s  %s  %s\n", d.State, d.Function, d.Hex)
		for _, what := range d.What {
			fmt.Fprintf(&out, "    %s\n", what)
		}
	}
	return out.String()
}
