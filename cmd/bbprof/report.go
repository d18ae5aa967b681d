package main

import (
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/profiler"
)

// reporter writes lines of a label and what it labels.
type reporter struct{ strings.Builder }

func (w *reporter) line(label, format string, args ...any) {
	fmt.Fprintf(w, "%-12s%s\n", label, fmt.Sprintf(format, args...))
}

// report says for a reader what a result says for a program.
func report(r profiler.Result) string {
	var w reporter
	switch r.Status {
	case profiler.OK:
		fmt.Fprintf(&w, "%.3f cycles per iteration, 95 %% interval %.3f to %.3f\n", r.Cycles, r.CILow, r.CIHigh)
	case profiler.Rejected:
		w.rejection(r)
	default:
		fmt.Fprintf(&w, "error: %s\n", r.Failure)
	}
	w.line("block", "%s in %s: %s", plural(r.Instructions, "instruction"), plural(r.Bytes, "byte"), r.Hex)
	if r.UnrollLong > 0 {
		w.run(r)
	}
	if len(r.Evidence) > 0 {
		w.WriteString("invariants\n")
		for _, e := range r.Evidence {
			fmt.Fprintf(&w, "  %-15s %-10s %s\n", e.Invariant, e.Kind, e.Detail)
		}
	}
	for _, warning := range r.Warnings {
		w.line("warning", "%s", warning)
	}
	w.detail(r)
	return w.String()
}

// run tells of the images, the pages they touch, and their timing if it came to that.
func (w *reporter) run(r profiler.Result) {
	if r.Pages == 0 {
		w.line("memory", "no page touched")
	} else {
		w.line("memory", "%s on %s", plural(r.Pages, "page"), plural(r.Frames, "frame"))
	}
	w.line("unrolled", "%d and %d copies", r.UnrollShort, r.UnrollLong)
	if r.RunsPerSample > 0 {
		w.line("samples", "%d kept, %d dropped; windows: %d kept, %d dropped for a context switch, %d for a busy core; %s a sample",
			r.SamplesKept, r.SamplesDropped, r.WindowsKept, r.WindowsSwitched, r.WindowsUnsteady, plural(r.RunsPerSample, "run"))
	}
	if c := r.Clock; c != nil {
		w.line("clock", "%s", c.Method)
		w.line("", "%.4f ticks per cycle; cross-check: an imul takes %.3f cycles, the idle core's sentinel %.0f", c.TicksPerCycle, c.MultiplyCycles, c.SentinelQuiet)
	}
}

func (w *reporter) rejection(r profiler.Result) {
	fmt.Fprintf(w, "rejected: %s\n", r.Reason)
	w.line("detail", "%s", r.Rejection.Detail)
	if in := r.Rejection.Inst; in != nil {
		w.line("instruction", "%d, at byte %d: %s (%s)", in.Index+1, in.Offset, in.Text, in.Hex)
	}
	if a := r.Rejection.Address; a != nil {
		w.line("address", "%#x", *a)
	}
}

// detail is what -v adds.
func (w *reporter) detail(r profiler.Result) {
	if len(r.Listing) > 0 {
		w.WriteString("disassembly\n")
		for i, l := range r.Listing {
			fmt.Fprintf(w, "  %3d  %4x  %-24s %s\n", i+1, l.Offset, l.Hex, l.Text)
		}
	}
	if len(r.Mapping) > 0 {
		w.WriteString("mapping\n")
		for _, p := range r.Mapping {
			fmt.Fprintf(w, "  instruction %d asked for %#x: page %#x on frame %d\n", p.Inst+1, p.Fault, p.Addr, p.Frame)
		}
	}
	if h := r.Host; h != nil {
		w.line("host", "%s, CPU %d; speculative store bypass: %s", strings.TrimSpace(h.CPU.Brand), h.OnCPU, h.SpeculativeStoreBypass)
		w.line("init", "registers %#x, memory %#016x, fs base %#x, gs base %#x, mxcsr %#x",
			r.Init.GPR[0], r.Init.Fill, r.Init.FSBase, r.Init.GSBase, r.Init.MXCSR)
	}
}

// plural counts things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
