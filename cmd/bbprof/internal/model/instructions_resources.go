package model

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/resources"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// resourcePrecision is the precision of mixes: a use is a difference of two, often a sixth of a cycle.
const resourcePrecision = 0.005

// findResources finds the resources that the measured forms compete for, and writes them.
func (c *instructionsCmd) findResources(ctx context.Context, std cli.Streams, rows []instructions.Row) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r instructions.Row) bool { return r.Form == nil || r.Status != profiler.OK })
	opts := c.Measuring
	opts.Precision = cmp.Or(opts.Precision, resourcePrecision)
	workers, err := blockflags.SomeWorkers(ctx, std, opts, c.Workers)
	if err != nil {
		return err
	}
	defer workers.Close()
	list, byName := make([]resources.Form, len(rows)), map[string]int{}
	for i := range rows {
		byName[rows[i].Name] = i
		list[i] = resources.Form{Name: rows[i].Name, Simple: instructions.SimpleForMix(rows[i].Form), Latencies: rows[i].Latencies()}
		if rows[i].Throughput != nil {
			list[i].Alone = rows[i].Throughput.Cycles()
		}
	}
	for i := range rows { // what each mix has beside a form is subtracted
		for _, b := range instructions.Companions(rows[i].Form) {
			if form, ok := byName[b.Form]; ok {
				list[i].Beside = append(list[i].Beside, resources.Part{Form: form, N: b.N})
			}
		}
	}
	m := &mixTimer{profile: workers.Profile, retries: c.Retries, forms: list, notes: c.out.Notes(std)}
	table, err := resources.Find(ctx, list, m.time, func(what string) { m.what = what })
	if err != nil {
		return err
	}
	cpu := host.Detect(c.Measuring.CPUs...)
	table.Core, table.CPU, table.Made = string(cpu.Microarchitecture), cpu.Brand, "bbprof "+cli.Version()
	fmt.Fprintf(m.notes, "bbprof: %d mixes, %d of them not measured because the core was busy; %d resources\n", m.done, m.busy, len(table.Resources))
	for _, out := range []struct {
		ending string
		write  func(io.Writer) error
	}{{".json", table.Write}, {".csv", table.WriteCSV}, {".html", table.WritePage}} {
		if err := cli.WriteWhole(c.resources+out.ending, out.write); err != nil {
			return fmt.Errorf("-resources: %w", err)
		}
	}
	return nil
}

// mixTimer times mixes of forms.
type mixTimer struct {
	profile func(context.Context, []profiler.Block, int, func(n int)) ([]profiler.Result, error)
	retries int
	forms   []resources.Form
	notes   io.Writer
	what    string
	done    int
	busy    int // mixes without a time for that
}

// mostBusy is the share of mixes without a time at which the search ends: on a busy core it took a quarter of an hour without an
// end, and what it found would be of the neighbour.
const (
	mostBusy = 0.25
	fewBusy  = 32 // of a part with few mixes
)

func (m *mixTimer) block(mix resources.Mix) (profiler.Block, error) {
	var parts []resources.Copies
	for _, p := range mix {
		parts = append(parts, resources.Copies{Form: m.forms[p.Form].Name, N: p.N})
	}
	return instructions.Mix(parts)
}

// time measures mixes in parallel, a thousand at a time.
func (m *mixTimer) time(ctx context.Context, list []resources.Mix) ([]resources.Timing, error) {
	const atATime = 1024
	times := make([]resources.Timing, len(list))
	var blocks []profiler.Block
	var of []*resources.Timing
	for i, mix := range list {
		b, err := m.block(mix)
		if err != nil {
			times[i].Why = "untestable: " + err.Error()
			continue
		}
		blocks, of = append(blocks, b), append(of, &times[i])
	}
	shown := cli.Progress(m.notes, m.done+len(blocks), m.what+": mixes")
	defer shown.End()
	for part := range slices.Chunk(blocks, atATime) {
		results, err := m.profile(ctx, part, m.retries, func(n int) { shown.Step(m.done + n) })
		if err != nil {
			return nil, err
		}
		busy := 0
		for i := range results {
			r := &results[i]
			if err := r.Err(); err != nil {
				if r.Reason == verdict.BusyCore {
					busy++
				}
				of[i].Why = "untestable: " + err.Error()
			} else {
				*of[i] = resources.Timing{Cycles: r.Cycles, Low: r.CILow, High: r.CIHigh}
			}
		}
		of = of[len(part):]
		m.done += len(part)
		m.busy += busy
		if busy > fewBusy && float64(busy) > mostBusy*float64(len(part)) {
			return nil, &verdict.HostError{
				Missing: fmt.Sprintf("other work kept the core busy during %d of %s", busy, words.Plural(len(part), "mix")),
				Remedy:  "-resume goes on when it is idle; -cpus chooses another", Busy: true,
			}
		}
	}
	return times, nil
}
