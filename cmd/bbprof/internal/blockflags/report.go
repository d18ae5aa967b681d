package blockflags

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/docs"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type Reporter struct{ strings.Builder }

func (w *Reporter) Line(label, format string, args ...any) {
	fmt.Fprintf(w, "%-12s%s\n", label, fmt.Sprintf(format, args...))
}

// Report describes a block's result; the lines beside follow the measurement.
func Report(r profiler.Result, beside ...string) string {
	var w Reporter
	switch r.Status {
	case profiler.OK:
		fmt.Fprintf(&w, "%.3f cycles per iteration, 95 %% interval %.3f to %.3f\n", r.Cycles, r.CILow, r.CIHigh)
	case profiler.Rejected:
		w.rejection(r)
	default:
		fmt.Fprintf(&w, "error: %s\n", r.Failure)
	}
	w.WriteString(strings.Join(beside, ""))
	w.Line("block", "%s in %s: %s", words.Plural(r.Instructions, "instruction"), words.Plural(r.Bytes, "byte"), r.Hex)
	w.modes(r)
	if r.UnrollLong > 0 {
		w.run(r)
	}
	if len(r.Evidence) > 0 {
		w.WriteString("invariants\n")
		for _, e := range r.Evidence {
			fmt.Fprintf(&w, "  %-15s %-10s %s\n", e.Invariant, e.Kind, e.Detail)
		}
	}
	w.counters(r)
	for _, warning := range r.Warnings {
		w.Line("warning", "%s", warning)
	}
	w.detail(r)
	return w.String()
}

// modes lists a block's modes if it has several, or the one layout that its cycles belong to.
func (w *Reporter) modes(r profiler.Result) {
	if len(r.Speeds) == 1 && len(r.Speeds[0].Layouts) == 1 {
		w.Line("layout", "%v", timing.Layout(r.Speeds[0].Layouts[0]))
	}
	if len(r.Speeds) < 2 {
		return
	}
	measured := 0
	for _, s := range r.Speeds {
		measured += len(s.Layouts)
	}
	w.Line("speeds", "%d: its cycles depend on the layout", len(r.Speeds))
	for _, s := range r.Speeds {
		line := fmt.Sprintf("%.3f in %d of %d layouts", s.Cycles, len(s.Layouts), measured)
		if r.Host != nil { // -v
			line += ": " + strings.Trim(fmt.Sprint(s.Layouts), "[]")
		}
		w.Line("", "%s", line)
	}
}

// branched lists how branches went.
func (w *Reporter) branched(list []profiler.BranchedReport) {
	for _, b := range list {
		w.Line("", "%s at byte %d is taken %d of %s", b.Text, b.Offset, b.Taken, words.Plural(b.Of, "time"))
	}
}

// run describes the images, the pages they touch, and their timing, if any.
func (w *Reporter) run(r profiler.Result) {
	if r.Pages == 0 {
		w.Line("memory", "no page touched")
	} else {
		w.Line("memory", "%s on %s", words.Plural(r.Pages, "page"), words.Plural(r.Frames, "frame"))
	}
	w.Line("init", "%s", state(r))
	w.captured(r.Captured)
	if r.Mode == profiler.Unroll {
		copies := fmt.Sprintf("%d and %d copies", r.UnrollShort, r.UnrollLong)
		if r.UnrollShort == 0 {
			copies = fmt.Sprintf("%d copies, and what runs before and after them (Equation 1 of the BHive paper)", r.UnrollLong)
		}
		if r.Branch != nil && r.Branch.As == profiler.Taken { // by the loop
			copies += " whose branches fall through"
		}
		w.Line("unrolled", "%s%s", copies, servedBy(r.FrontEnd))
	}
	if b := r.Branch; b != nil {
		w.Line("branch", "%s", strings.TrimSuffix(fmt.Sprintf("%s; %s", b.As, b.Changed()), "; "))
	}
	if l := r.Loop; l != nil {
		copies, turns := words.Plural(l.CopiesLong, "copy"), fmt.Sprint(l.IterationsLong)
		if l.CopiesShort != l.CopiesLong {
			copies = fmt.Sprintf("%d and %s", l.CopiesShort, copies)
		}
		if l.IterationsShort != l.IterationsLong {
			turns = fmt.Sprintf("%d and %s", l.IterationsShort, turns)
		}
		w.Line("loop", "%s in its body, %s turns, counted in %s", copies, turns, l.Counter)
	}
	if l := r.Region; l != nil {
		w.Line("region", "as it stands, entered at byte %d: %s to its end, %.3g instructions each", l.Entry, words.Plural(l.Iterations, "iteration"), l.Instructions)
		w.branched(l.Branches)
		if u := l.Untrained; u != nil {
			w.Line("untrained", "%.3f cycles per iteration, 95 %% interval %.3f to %.3f, before the branch predictor has learnt these data", u.Cycles, u.CILow, u.CIHigh)
		}
	}
	if len(r.Inner) > 0 {
		w.Line("path", "one in all copies")
		w.branched(r.Inner)
	}
	if r.RowCycles > 0 {
		w.Line("row", "%.3f cycles per iteration, 95 %% interval %.3f to %.3f%s", r.RowCycles, r.RowCILow, r.RowCIHigh, servedBy(r.FrontEnd))
	}
	if r.Clock != nil && r.Clock.Name == string(profiler.PerfClock) {
		w.Line("timings", "%d clean and identical, %d others; windows: %d kept, %d timed again after a context switch",
			r.SamplesKept, r.SamplesDropped, r.WindowsKept, r.WindowsSwitched)
		w.Line("clock", "%s; cross-check: an imul takes %.3f of them", r.Clock.Method, r.Clock.MultiplyCycles)
		return
	}
	if r.RunsPerSample > 0 {
		w.Line("samples", "%d kept, %d dropped; windows: %d kept, %d dropped for a context switch, %d for a busy core; %s a sample",
			r.SamplesKept, r.SamplesDropped, r.WindowsKept, r.WindowsSwitched, r.WindowsUnsteady, words.Plural(r.RunsPerSample, "run"))
	}
	if c := r.Clock; c != nil {
		w.Line("clock", "%s", c.Method)
		w.Line("", "%.4f ticks per cycle; cross-check: an imul takes %.3f cycles, the contention probe on an idle core "+
			"%.0f", c.TicksPerCycle, c.MultiplyCycles, c.ProbeIdle)
		if !c.IdleConfirmed {
			w.Line("", "bbprof's start saw no core as idle as one of this kind is, or does not know how idle that is")
		}
		if c.Shared >= leastShared {
			w.Line("", "other work slowed or interrupted %.0f %% of the samples that the clock was calibrated with", 100*c.Shared)
		}
	}
}

// leastShared is the share of disturbed samples above which the report mentions it: on idle cores of Zen 4 it was 0 to
// 0.03.
const leastShared = 0.05

// captured names the visit that the initial state comes from, and says how long the copies stay within it.
func (w *Reporter) captured(c *profiler.CapturedReport) {
	if c == nil {
		return
	}
	w.Line("", "%s", c.Visit)
	if c.Leaves != nil {
		stay := words.Plural(c.Within, "copy") + " stay"
		if c.Within == 1 {
			stay += "s"
		}
		w.Line("", "%s within it, then %v", stay, c.Leaves)
	}
}

// counters reports what the events counted and why others did not; nothing if no counter was available or requested.
func (w *Reporter) counters(r profiler.Result) {
	counted := func(c profiler.CounterReport) bool { return c.PerIteration != nil }
	if !slices.ContainsFunc(r.Counters, counted) {
		return
	}
	w.WriteString("counters\n")
	unchecked := map[string][]string{} // by reason
	for _, c := range r.Counters {
		name := string(c.Role)
		if c.Role == string(pmu.Asked) {
			name = c.Event
		}
		if !counted(c) {
			unchecked[c.Why] = append(unchecked[c.Why], name)
			continue
		}
		detail := fmt.Sprintf("%.3f per iteration, by %s", *c.PerIteration, c.Reader)
		if name != c.Event {
			detail += ": " + c.Event
		}
		if !c.Exact {
			detail += ", which counts more than that"
		}
		if c.Why != "" {
			detail += "; " + c.Why
		}
		fmt.Fprintf(w, "  %-15s %-10s %s\n", name, c.Kind, detail)
	}
	if r.Core == "" && r.Clock != nil && r.Clock.Name == string(profiler.PerfClock) {
		fmt.Fprintf(w, "  %-15s %-10s bbprof does not know this core's own events; these are the kernel's generic ones\n", "", "")
	}
	for _, why := range slices.Sorted(maps.Keys(unchecked)) {
		fmt.Fprintf(w, "  %-15s %-10s %s\n", "", invariants.Unchecked, strings.Join(unchecked[why], ", ")+": "+why)
	}
}

func servedBy(f profiler.FrontEnd) string {
	if f == profiler.Decode {
		return ", from the decoders"
	}
	return ""
}

func state(r profiler.Result) string {
	s := r.Init.Name
	if r.Init.Set != "" {
		s += " with " + r.Init.Set
	}
	if len(r.Init.Memory) > 0 {
		s += fmt.Sprintf("; memory %v", r.Init.Memory)
	}
	if paper := r.PaperVerdict; paper != "" && paper != string(profiler.OK) && r.Status == profiler.OK {
		s += "; the paper's, with all pages on one frame, gives " + paper
	}
	if n := r.SelfForwarding; n > 0 {
		s += fmt.Sprintf("; self-forwarding: %s met a store only because registers or words of memory start equal", words.Plural(n, "load"))
	}
	return s
}

func (w *Reporter) rejection(r profiler.Result) {
	fmt.Fprintf(w, "rejected: %s\n", r.Reason)
	w.Line("detail", "%s", r.Rejection.Detail)
	if in := r.Rejection.Inst; in != nil {
		w.Line("instruction", "%d, at byte %d: %s (%s)", in.Index+1, in.Offset, in.Text, in.Hex)
	}
	if a := r.Rejection.Address; a != nil {
		w.Line("address", "%#x", *a)
	}
	if text := cmp.Or(r.Rejection.Remedy, remedy(r.Reason)); text != "" {
		w.Line("remedy", "%s", text)
	}
}

// remedy is the line of docs/reference.md that says what to do about the reason.
func remedy(reason verdict.Reason) string {
	_, section, _ := strings.Cut(docs.Reference, "\n### `"+string(reason)+"`\n")
	_, section, _ = strings.Cut(section, "**Do**: ")
	line, _, _ := strings.Cut(section, "\n")
	return strings.TrimSuffix(strings.ReplaceAll(docs.Alone(line), "`", ""), ".")
}

func (w *Reporter) detail(r profiler.Result) {
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
		w.Line("host", "%s, CPU %d; speculative store bypass: %s", strings.TrimSpace(h.CPU.Brand), h.OnCPU, h.SpeculativeStoreBypass)
		w.Line("registers", "%s", registers(r.Init.GPR))
		w.Line("", "fs base %#x, gs base %#x, mxcsr %#x; memory is filled with %#016x", r.Init.FSBase, r.Init.GSBase, r.Init.MXCSR, r.Init.Fill)
	}
}

// registers formats the initial general registers, as one number if all are equal.
func registers(gpr [16]uint64) string {
	if len(slices.Compact(slices.Clone(gpr[:]))) == 1 {
		return fmt.Sprintf("all %#x", gpr[0])
	}
	text := ""
	for i, v := range gpr {
		if i%4 == 0 && i > 0 {
			text += fmt.Sprintf("\n%-10s", "")
		}
		text += fmt.Sprintf("  %s %#x", asm.Reg(i), v)
	}
	return strings.TrimPrefix(text, "  ")
}
