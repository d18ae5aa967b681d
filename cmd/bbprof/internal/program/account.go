package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/account"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func accountCommand() *cli.Command {
	return &cli.Command{
		Name:     "account",
		Summary:  "what share of a program's cycles its blocks explain, by function",
		Synopsis: []string{"account [flags] RESULTS... -- PROGRAM [ARGUMENT...]"},
		About: `RESULTS is what bbprof batch made of the blocks and counts of bbprof extract -run, best with
-terminators; from each further one, also of batch -state, account takes what those before it
rejected, such as loops that only the program's state ends. What batch -state made of bbprof
capture -loops takes the place of those loops' blocks. The sum of count × cycles is what the program
would take if each block ran as it does alone: from L1, with every transfer predicted, and free
unless a block or a loop holds it. account runs the program, and compares its user time with that
sum, and perf's samples of time with each function's blocks.

If the blocks explain less than the program takes, the rest is mispredictions and cache misses,
which -misses adds, TLB misses, and waiting for earlier blocks. If they explain more, blocks overlap
in the program, or their initial state makes them slow when alone.
`,
		Notes: "docs/extract.md has examples of each.\n",
		Examples: `bbprof extract -run -terminators -o ran.csv -- gzip -c FILE >/dev/null
bbprof batch -o cycles.csv ran.csv
bbprof account cycles.csv -- gzip -c FILE
`,
		Exits: cli.Exits("done", "", map[int]string{cli.ExitInterrupted: "interrupted"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			a := accountCmd{runs: 5}
			f.Operands, f.Program = &a.files, &a.program
			a.out.Add(f, "the table")
			f.Repeats(&a.runs, 1, "runs", "runs of the program whose user time is taken")
			programflags.RunFlags(f, &a.timeout, &a.stdin, "10m")
			programflags.AnyStatusFlag(f, &a.anyStatus)
			f.Toggle(&a.misses, "misses", "run the program once more under valgrind, at 100 times the time, which simulates L1, L2 and a branch predictor, and add "+
				"what their misses would take")
			return a.out.Resumable(f, a.run)
		},
	}
}

// mostFunctions is the number of functions in the table; -json has all.
const mostFunctions = 15

// leastSeconds is the user time below which a program's start and the kernel's time steps of 1 to 4 ms exceed a few
// percent.
const leastSeconds = 0.1

type accountCmd struct {
	files     []string
	program   []string
	runs      int
	stdin     string
	timeout   time.Duration
	anyStatus bool
	misses    bool
	out       cli.Output
}

func (a *accountCmd) run(std cli.Streams) error {
	var r cli.Rules
	r.Not(len(a.files) == 0, "name a result of bbprof batch, and the program after --")
	r.Not(len(a.program) == 0, "name the program after --, such as bbprof account cycles.csv -- ./prog")
	if r.Err != nil {
		return r.Err
	}
	blocks, err := account.Read(a.files, std.In, a.out.Notes(std))
	if err != nil {
		return cli.Usage(err)
	}
	if _, err := launch.Find(a.program[0]); err != nil {
		return cli.Usage(err)
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	run := account.Run{Program: a.program}
	if err := a.time(ctx, std, &run); err != nil {
		return err
	}
	took := slices.Max(run.UserSeconds)
	if took < leastSeconds {
		fmt.Fprintf(a.out.Notes(std), "bbprof: the program takes %.3f s, of which its start may be much, and the kernel tells time by the millisecond; "+
			"give it a tenth of a second of work or more\n", took)
	}
	if run.Samples, err = a.samples(ctx, std); err != nil {
		return programflags.BadInput(err)
	}
	if took >= leastSeconds && len(run.Samples) > 0 && !account.Met(blocks, run.Samples) {
		return cli.BadUsage("%s: none of the files in which %s spends its time is there; give the result of this program, from where it "+
			"stands now", strings.Join(a.files, ", "), a.program[0])
	}
	if a.misses {
		if run.Missed, err = a.missed(ctx, std); err != nil {
			return programflags.BadInput(err)
		}
	}
	t := account.Tabulate(blocks, run)
	return a.out.Write(std, t, t.Report(mostFunctions))
}

// chain is eight dependent adds, whose measurement yields the core's clock rate.
var chain = bytes.Repeat([]byte{0x48, 0x01, 0xc0}, 8)

func (a *accountCmd) time(ctx context.Context, std cli.Streams, run *account.Run) error {
	notes := a.out.Notes(std)
	p, err := profiler.New(ctx, profiler.Options{Clock: profiler.TSCClock}) // counted cycles do not convert to seconds
	if err != nil {
		return err
	}
	defer p.Close()
	patient := pool.NewPatient(p)
	readings := 0
	for n := range a.runs + 1 {
		r, err := patient.Profile(ctx, profiler.Block{Code: chain})
		if err != nil {
			return err
		}
		if r.Clock != nil && r.Clock.TicksPerCycle > 0 && r.Clock.TicksPerSecond > 0 {
			run.CyclesPerSecond += r.Clock.TicksPerSecond / r.Clock.TicksPerCycle
			readings++
		}
		if n == a.runs {
			break
		}
		took, err := a.userSeconds(ctx, std, notes)
		if err != nil {
			return err
		}
		notes = io.Discard // they would be the same
		run.UserSeconds = append(run.UserSeconds, took)
	}
	if readings == 0 {
		return &verdict.HostError{Missing: "no measurement of the core's clock rate", Remedy: "run bbprof doctor"}
	}
	run.CyclesPerSecond /= float64(readings)
	return nil
}

// key is under what something is kept of this build of the program.
func (a *accountCmd) key(what string) string {
	path, _ := launch.Find(a.program[0]) // found before
	return what + " " + launch.Content(path)
}

func (a *accountCmd) userSeconds(ctx context.Context, std cli.Streams, notes io.Writer) (float64, error) {
	key := a.key("user seconds")
	if kept, ok := std.Kept.Take(key); ok {
		return kept.(float64), nil
	}
	took, err := programflags.Run(ctx, extract.Run{Program: a.program, AnyStatus: a.anyStatus, Timeout: a.timeout}, a.stdin, notes, (*extract.Run).UserTime)
	if err != nil {
		return 0, err
	}
	return took.Seconds(), std.Kept.Keep(key, took.Seconds())
}

func (a *accountCmd) once(std cli.Streams) extract.Run {
	return extract.Run{Program: a.program, Err: cli.Direct(std.Err), AnyStatus: a.anyStatus, Timeout: a.timeout}
}

func (a *accountCmd) samples(ctx context.Context, std cli.Streams) (map[account.Place]float64, error) {
	p, err := programflags.Run(ctx, a.once(std), a.stdin, io.Discard, (*extract.Run).Samples)
	if host := (*verdict.HostError)(nil); errors.As(err, &host) {
		fmt.Fprintf(a.out.Notes(std), "bbprof: cycles by function are left out: %s; %s\n", host.Missing, host.Remedy)
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	samples := map[account.Place]float64{}
	return samples, extract.ByFunction(ctx, []*extract.Profile{p}, func(file, function string, counts []uint64) {
		samples[account.Place{File: file, Function: function}] += float64(counts[0])
	})
}

func init() { journal.Register(map[account.Place]account.Missed{}) }

func (a *accountCmd) missed(ctx context.Context, std cli.Streams) (map[account.Place]account.Missed, error) {
	key := a.key("misses")
	if kept, ok := std.Kept.Take(key); ok {
		return kept.(map[account.Place]account.Missed), nil
	}
	found, err := programflags.Run(ctx, a.once(std), a.stdin, io.Discard, (*extract.Run).Missed)
	if err != nil {
		return nil, err
	}
	missed := map[account.Place]account.Missed{}
	err = extract.ByFunction(ctx, found, func(file, function string, n []uint64) {
		p := account.Place{File: file, Function: function}
		m := missed[p]
		missed[p] = account.Missed{L1: m.L1 + float64(n[0]), L2: m.L2 + float64(n[1]), Branches: m.Branches + float64(n[2])}
	})
	if err != nil {
		return nil, err
	}
	return missed, std.Kept.Keep(key, missed)
}
