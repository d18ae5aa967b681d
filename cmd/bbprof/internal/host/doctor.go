package host

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/doctor"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/selftest"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:     "doctor",
		Summary:  "say what this host can do, how well, and which commands improve it",
		Synopsis: []string{"doctor [flags]"},
		About: `It takes about a second, and measures with bbprof itself. If it says that bbprof can measure here,
it has just done so, with the clock and the evidence that bbprof -hex would use. The precision is
that of a few built-in blocks, measured twice. It also tests what the method asks of a CPU (Chen et
al., BHive, IISWC 2019): what two virtual pages on one physical page cost, whether misses of L1 are
counted or inferred, and whether subnormals that are flushed to zero cost nothing; and whether loops
run from an op cache.
`,
		Notes: "docs/install.md says what a host needs.\n",
		Examples: `bbprof doctor
bbprof doctor -json | jq -r '.shortcomings[].remedy'
`,
		Exits: cli.Exits("this host can measure, whatever could be improved", "", map[int]string{
			cli.ExitHost:        "this host cannot measure, or not now: other work disturbed every block",
			cli.ExitInterrupted: "interrupted"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			var d examining
			f.Stray = "it measures its own blocks"
			d.out.Add(f, "the report")
			f.Toggle(&d.verbose, "v", "of the report, not of -json: add what each event of the hardware counters counted over "+
				"blocks of which is known what it must count")
			f.Text(&d.record, "record", "FILE", "write what this core says, raw, and nothing else: readings of the clock and of the "+
				"contention probe, and every timed run of some blocks of known time, compressed; some 100 KB to attach to a report")
			blockflags.WhereFlags(f, &d.opts)
			f.Lookup("budget").Fallback = "500ms"
			return d.run
		},
	}
}

type examining struct {
	opts    profiler.Options
	out     cli.Output
	verbose bool
	record  string // the file for a recording
}

func (d *examining) run(std cli.Streams) error {
	ctx, stop := cli.UntilSignal()
	defer stop()
	if d.record != "" {
		return d.writeRecording(ctx, std)
	}
	r, err := doctor.Examine(ctx, doctor.ThisMachine(d.opts.CPUs...), d.opts)
	if err != nil {
		return err
	}
	text := doctorReport(r)
	if d.verbose && r.CanMeasure {
		text += eventsReport(r)
	}
	if err := d.out.Write(std, r, text); err != nil || r.CanMeasure {
		return err
	}
	return cli.Exit(cli.ExitHost)
}

// writeRecording records the core at hand.
func (d *examining) writeRecording(ctx context.Context, std cli.Streams) error {
	r, err := selftest.Record(ctx, d.opts)
	if err != nil {
		return err
	}
	file := strings.TrimSuffix(d.record, ".gz") + ".gz"
	if err := cli.WriteWhole(file, r.Write); err != nil {
		return err
	}
	fmt.Fprintf(d.out.Notes(std), "bbprof: %s holds %d starts and %d timings of blocks on %s\n", file, len(r.Starts), len(r.Blocks), r.CPU.Core)
	return nil
}

func doctorReport(r doctor.Report) string {
	var w hostReporter
	others := r.Shortcomings
	if r.CanMeasure {
		w.WriteString("bbprof can measure here\n")
	} else {
		w.WriteString("bbprof cannot measure here")
		if r.Busy {
			w.WriteString(" now: other work kept the core busy")
		}
		w.WriteString("\n")
		w.Line("missing", "%s", others[0].What)
		w.Line("remedy", "%s", cmp.Or(others[0].Remedy, noRemedy))
		others = others[1:]
	}
	w.host(r)
	w.pmu(r.Counters)
	w.permits(r)
	if r.CanMeasure {
		w.prospect(r)
	}
	w.shortcomings(others)
	return w.String()
}

// hostReporter writes what there is to say about a host.
type hostReporter struct{ blockflags.Reporter }

func (w *hostReporter) host(r doctor.Report) {
	h, c := r.Host, r.Host.CPU
	w.Line("cpu", "%s: %s (%s family %#x model %#x stepping %d)", shown(strings.TrimSpace(c.Brand)), c.Microarchitecture,
		shown(c.Vendor), c.Family, c.Model, h.Stepping)
	if c.Contradiction != "" {
		w.Line("", "%s", c.Contradiction)
	}
	w.Line("caches", "%s", caches(h.Caches))
	under := ""
	if h.Hypervisor != "" {
		under = ", under " + h.Hypervisor
	}
	w.Line("kernel", "Linux %s%s; microcode: %s; mitigations in force: %d", shown(h.Kernel), under, shown(h.Microcode), len(h.Mitigations))
	on := ""
	if r.CanMeasure {
		on = fmt.Sprintf("; measured on %d", r.OnCPU)
	}
	w.Line("cpus", "allowed are %s of %s%s; SMT: %s%s", shown(doctor.List(h.CPUsAllowed)), shown(doctor.List(h.CPUsOnline)), on, shown(h.SMT), siblings(h))
	tsc := "invariant"
	if !h.Invariant {
		tsc = "not said to be invariant"
	}
	w.Line("frequency", "governor: %s; turbo: %s; TSC: %s", shown(h.Governor), shown(h.Turbo.State), tsc)
}

func shown(s string) string { return cmp.Or(s, "not shown") }

// caches are such as L1D 32 KiB in 8 ways.
func caches(all []host.Cache) string {
	if len(all) == 0 {
		return "CPUID does not tell"
	}
	suffix := map[string]string{"data": "D", "instruction": "I"}
	var list []string
	for _, c := range all {
		list = append(list, fmt.Sprintf("L%d%s %s in %d ways", c.Level, suffix[c.Kind], size(c.Bytes), c.Ways))
	}
	return fmt.Sprintf("%s; lines of %d bytes", strings.Join(list, ", "), all[0].Line)
}

func size(bytes int) string {
	if bytes >= 1<<20 && bytes%(1<<19) == 0 {
		return fmt.Sprintf("%g MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%g KiB", float64(bytes)/(1<<10))
}

func siblings(h doctor.Host) string {
	var pairs []string
	for _, c := range h.Cores {
		if len(c.Siblings) > 0 {
			pairs = append(pairs, fmt.Sprintf("%d with %s", c.CPU, doctor.List(c.Siblings)))
		}
	}
	if len(pairs) == 0 {
		return ", no CPU shares a core"
	}
	return ", CPUs share a core: " + strings.Join(pairs, ", ")
}

func (w *hostReporter) pmu(p pmu.PMU) {
	if !p.Available {
		w.Line("counters", "none: %s", p.Reason)
		return
	}
	rdpmc := "user code may not read them"
	if p.UserRDPMC {
		rdpmc = fmt.Sprintf("user code may read them, %d bits", p.Width)
	}
	w.Line("counters", "core cycles and %s at a time (device %s); %s", words.Plural(p.Counters, "more event"), p.Device.Name, rdpmc)
}

func eventsReport(r doctor.Report) string {
	var w hostReporter
	if len(r.Events) == 0 {
		w.WriteString("events: none is checked, for there are no counters; no result rests on any\n")
		return w.String()
	}
	w.WriteString("events, and what each counted per iteration of blocks of which that is known\n")
	row := func(name string, kind invariants.Kind, text string) {
		fmt.Fprintf(&w, "  %-15s %-10s %s\n", name, kind, text)
	}
	if r.Clock.Name == string(profiler.PerfClock) {
		row("cycles", invariants.Counted, r.Clock.Method)
	} else {
		row("cycles", invariants.Unchecked, "they are the TSC's: "+r.Clock.Method)
	}
	for _, e := range r.Events {
		row(e.Role, e.Kind, cmp.Or(e.Event, e.Why))
		if e.Event != "" && e.Why != "" {
			row("", "", e.Why)
		}
		for _, c := range e.Checks {
			counted := fmt.Sprintf("%.3f", c.Counted)
			if c.Failed != "" {
				counted = "not measured"
			}
			row("", "", fmt.Sprintf("%s of %g: %s", counted, c.Must, c.Block))
		}
	}
	return w.String()
}

func (w *hostReporter) permits(r doctor.Report) {
	h := r.Host
	number := func(n int) string {
		if n == pmu.UnknownLevel {
			return shown("")
		}
		return strconv.Itoa(n)
	}
	user, yama := shown(""), cmp.Or(h.PtraceScope, "no Yama")
	if h.UID != nil {
		user = strconv.Itoa(*h.UID)
	}
	if h.Kernel == "" { // nor is anything else of /proc
		yama = shown("")
	}
	paranoid, rdpmc := number(r.Counters.Paranoid), number(r.Counters.RDPMC)
	w.Line("permits", "user %s; seccomp: %s; perf_event_paranoid: %s; rdpmc: %s; ptrace_scope: %s; page 0: %s", user,
		shown(h.Seccomp), paranoid, rdpmc, yama, cmp.Or(h.PageZero, "not tried"))
	child := ""
	if r.SpeculativeStoreBypass != "" {
		child = "; of the child: " + r.SpeculativeStoreBypass
	}
	w.Line("speculation", "store bypass: %s%s; gather data sampling: %s", shown(h.StoreBypass), child, shown(h.Gather))
}

func (w *hostReporter) prospect(r doctor.Report) {
	if c := r.Clock; c != nil {
		w.Line("clock", "%s", c.Method)
		if c.RateLow > 0 && c.TSCMegahertz > 0 {
			w.Line("", "%.0f MHz; the core has %.2f GHz, which moved by %.1f %% meanwhile", c.TSCMegahertz, c.TSCMegahertz/c.TicksPerCycle/1e3, 100*c.Drift())
		}
	}
	var evidence []string
	for _, e := range r.Evidence {
		evidence = append(evidence, fmt.Sprintf("%s %s", e.Invariant, e.Kind))
	}
	w.Line("evidence", "%s", strings.Join(evidence, ", "))
	if p := r.Precision; p.Measured > 0 {
		w.Line("precision", "intervals of ± %.2f %% (median of %s), at most ± %.2f %%", 100*p.HalfMedian, words.Plural(p.Measured, "block"), 100*p.HalfMax)
		w.Line("", "measured again, in another child, they are %.2f %% apart (median), at most %.2f %%", 100*p.ApartMedian, 100*p.ApartMax)
	}
	w.WriteString("what the method asks of a CPU\n")
	for _, q := range r.Requirements {
		row := func(name, met, text string) { fmt.Fprintf(w, "  %-25s %-13s %s\n", name, met, text) }
		row(q.Name, string(q.Met), q.Detail)
		if q.Instead != "" {
			row("", "", "so "+q.Instead)
		}
		if q.Name == doctor.Aliased {
			w.aliases(q.Prices)
		}
	}
}

func (w *hostReporter) aliases(prices []doctor.Price) {
	columns := []string{doctor.OneFrame, doctor.TwoFrames, doctor.OtherLine}
	t := cli.NewTable("lr", append([]string{"    cycles per iteration"}, columns...)...)
	var notes strings.Builder
	for _, what := range []string{doctor.Waiting, doctor.Parallel, doctor.Through} {
		cells := []string{"    " + what}
		for _, c := range columns {
			cycles, why := doctor.PriceOf(prices, what, c)
			cell := fmt.Sprintf("%.2f", cycles)
			if why != "" {
				cell = "?"
				fmt.Fprintf(&notes, "    ? %s, %s: %s\n", what, c, why)
			}
			cells = append(cells, cell)
		}
		t.Row(cells...)
	}
	w.WriteString(t.String())
	w.WriteString(notes.String())
}

func (w *hostReporter) shortcomings(list []doctor.Shortcoming) {
	if len(list) == 0 {
		w.WriteString("nothing else to mend\n")
		return
	}
	w.WriteString("what could be better\n")
	for i, s := range list {
		fmt.Fprintf(w, "  %d. %s\n     effect: %s\n     remedy: %s\n", i+1, s.What, s.Effect, cmp.Or(s.Remedy, noRemedy))
	}
}

const noRemedy = "none known"
