package instructions

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
)

// Value is cycles with their 95 % interval.
type Value struct{ Cycles, Low, High float64 }

func (v Value) String() string { return fmt.Sprintf("%.2f", v.Cycles) }

type Measurement struct {
	Probe
	Value  Value
	Block  string // hexadecimal
	Mean   string // why the number is a mean, not one fixed time; else empty
	Varies int    // how many differing measurements the interval holds; else 0
	Flags  string // for measuring the block again, besides the initial state
	Result Outcome
}

// Outcome is the part of a result that is kept.
type Outcome struct {
	Status   profiler.Status
	Reason   string
	Detail   string
	Cycles   Value // of the whole block
	Evidence string
}

// A Row is a form with its measurements.
type Row struct {
	Name     string
	Form     *asm.Form // nil for a snippet
	Snippet  *Snippet  // nil for a form
	Opcode   string    // LLVM's name; empty if unknown
	Operands string    // an example's, after the opcode
	Status   profiler.Status
	Reason   string
	Detail   string // what is unknown, and why

	Latency     *Measurement // the largest from a register or flags to another
	Load        *Measurement // from an address to the destination
	StoreToLoad *Measurement
	Throughput  *Measurement
	Output      *Measurement  // what the destination's old value costs
	All         []Measurement // everything
}

func (m *Measurement) what() string { return cmp.Or(m.Pair, m.Note, "throughput") }

func (m *Measurement) ok() bool { return m.Result.Status == profiler.OK }

// value derives the form's number from a job's cycles.
func (j *job) value(bridges map[bridge]Value) Value {
	take := j.probe.Others
	for _, b := range j.probe.Bridges {
		take += bridges[b].Cycles
	}
	links := float64(j.probe.Links)
	return Value{(j.result.Cycles - take) / links, (j.result.CILow - take) / links, (j.result.CIHigh - take) / links}
}

func newRow(p *Plan, jobs []*job, bridges map[bridge]Value) Row {
	row := Row{Name: p.Name, Form: p.Form, Snippet: p.Snippet, Status: profiler.OK}
	if p.Refused != "" {
		reason, why := p.Form.Refused()
		row.Status, row.Reason, row.Detail = profiler.Rejected, string(reason), p.Form.Mnemonic()+" "+why
		return row
	}
	missing := slices.Clone(p.Missing)
	for _, j := range jobs {
		m := Measurement{Probe: j.probe, Block: hex.EncodeToString(j.probe.Code), Varies: j.varies, Flags: j.flags(), Result: outcome(&j.result)}
		mean := j.repeat == asMean
		if m.ok() && mean && !steady(m.Result.Cycles) {
			m.Result.Status, m.Result.Reason, m.Result.Detail = profiler.Rejected, string(j.rejected), j.why
		}
		if unknown := slices.IndexFunc(j.probe.Bridges, func(b bridge) bool { _, ok := bridges[b]; return !ok }); unknown >= 0 && m.ok() {
			m.Result.Status, m.Result.Reason = profiler.Rejected, "no_bridge"
			m.Result.Detail = fmt.Sprintf("this CPU does not have the instruction from %v", j.probe.Bridges[unknown])
		}
		if m.ok() {
			m.Value = j.value(bridges)
		}
		switch {
		case m.Kind == OtherLatency:
			if j.repeat != inRow || !row.unlikeLong(&m) {
				continue
			}
		case m.Kind == Output && (!m.ok() || mean):
			continue
		case !m.ok():
			missing = append(missing, fmt.Sprintf("%s: %s: %s", m.what(), m.Result.Reason, m.Result.Detail))
		case mean:
			m.Mean = string(j.rejected)
			missing = append(missing, fmt.Sprintf("%s: a mean: %s", m.what(), j.why))
		}
		row.All = append(row.All, m)
	}
	row.choose()
	missing = append(missing, row.dropBound()...)
	missing = append(missing, row.dropChained()...)
	row.dropOutput()
	if row.Throughput == nil && row.Latency == nil && row.Load == nil {
		row.Status = profiler.Rejected
		for _, m := range row.All {
			if !m.ok() {
				row.Status, row.Reason, row.Detail = m.Result.Status, m.Result.Reason, m.Result.Detail
				break
			}
		}
		if len(row.All) == 0 {
			row.Reason, row.Detail = "no_block", strings.Join(missing, "; ")
		}
		return row
	}
	row.Detail = strings.Join(missing, "; ")
	return row
}

// dropOutput drops the time with one destination unless it is a whole number of cycles, and longer than with others. Golden
// Cove does vcvtsi2sh xmm, xmm, m32, which waits for none, in 1.0 cycles with one and in 0.7 with several.
func (r *Row) dropOutput() {
	const longer = 1.5
	if o := r.Output; o != nil && (r.Throughput == nil || !whole(o.Cycles()) || o.Cycles() < longer*r.Throughput.Cycles()) {
		o.Result.Status, r.Output = profiler.Rejected, nil
	}
}

// dropBound drops latencies through other instructions if the chain is no slower than the same instructions without
// waiting: they are only a bound.
func (r *Row) dropBound() (missing []string) {
	if r.Throughput == nil {
		return nil
	}
	for i := range r.All {
		m := &r.All[i]
		if m.ok() && m.Kind == Latency && len(m.Bridges) > 0 && m.Result.Cycles.Cycles < 1.1*float64(m.Links)*r.Throughput.Cycles() {
			m.Result.Status = profiler.Rejected
			missing = append(missing, fmt.Sprintf("%s: at most %v: the chain takes no longer than instructions that do not wait", m.what(), m.Value))
		}
	}
	r.choose()
	return missing
}

// dropChained drops the throughput of instructions that wait for their predecessors if the dependency-breaking block was
// not measured: it is a latency, only a bound.
func (r *Row) dropChained() (missing []string) {
	unknown := slices.ContainsFunc(r.All, func(m Measurement) bool { return m.Kind == Throughput && m.Breaks && !m.ok() })
	if r.Throughput == nil || r.Throughput.Breaks || !unknown {
		return nil
	}
	missing = append(missing, fmt.Sprintf("throughput: at most %v: that is of a block in which each waits for the one before", r.Throughput.Value))
	r.Throughput = nil
	return missing
}

// steady reports whether a mean is meaningful: its interval is within a tenth of it.
func steady(v Value) bool { return v.Cycles > 0 && v.High-v.Low < 0.2*v.Cycles }

// choose picks the row's main numbers: of throughputs the fastest, else the slowest, also of those by stated values.
func (r *Row) choose() {
	r.Latency, r.Load, r.StoreToLoad, r.Throughput, r.Output = nil, nil, nil, nil, nil
	of := map[Kind]**Measurement{Latency: &r.Latency, LoadLatency: &r.Load, StoreToLoad: &r.StoreToLoad, Throughput: &r.Throughput,
		Output: &r.Output}
	for i := range r.All {
		m := &r.All[i]
		best := of[m.Kind]
		if !m.ok() || best == nil {
			continue
		}
		if *best == nil {
			*best = m
			continue
		}
		better := m.Cycles() > (*best).Cycles()
		if m.Kind == Throughput && !(m.Stated && (*best).Stated) {
			better = m.Cycles() < (*best).Cycles()
		}
		if better {
			*best = m
		}
	}
}

func (m *Measurement) Cycles() float64 { return m.Value.Cycles }

func outcome(r *profiler.Result) Outcome {
	o := Outcome{Status: r.Status, Reason: string(r.Reason), Cycles: Value{r.Cycles, r.CILow, r.CIHigh}}
	switch {
	case r.Rejection != nil:
		o.Reason, o.Detail = string(r.Rejection.Reason), r.Rejection.Detail
	case r.Failure != "":
		o.Detail = r.Failure
	}
	var list []string
	for _, e := range r.Evidence {
		kind := string(e.Kind) + ": "
		if i := slices.IndexFunc(list, func(s string) bool { return strings.HasPrefix(s, kind) }); i >= 0 {
			list[i] += ", " + string(e.Invariant)
		} else {
			list = append(list, kind+string(e.Invariant))
		}
	}
	o.Evidence = strings.Join(list, "; ")
	return o
}

// List formats all values of some kinds.
func (r *Row) List(kinds ...Kind) string {
	var list []string
	for i := range r.All {
		m := &r.All[i]
		if !slices.Contains(kinds, m.Kind) || !m.ok() {
			continue
		}
		text := strings.TrimSpace(m.Pair + " " + m.Note)
		if m.Kind == Throughput {
			text = cmp.Or(m.Note, "alone")
		}
		text += ": " + m.Value.String()
		if len(m.Bridges) > 0 {
			var names []string
			for _, b := range m.Bridges {
				names = append(names, b.String())
			}
			text += " (less " + strings.Join(names, ", ") + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// Latencies returns a row's chains by pair: "2 to 1" is from the second operand to the first, "address to 1" a load, "2
// to m" a store and a load of it. Of several values the longest counts.
func (r *Row) Latencies() map[string]float64 {
	list := map[string]float64{}
	for i := range r.All {
		m := &r.All[i]
		if !m.ok() || m.Kind != Latency && m.Kind != LoadLatency && m.Kind != StoreToLoad {
			continue
		}
		pair, _, _ := strings.Cut(m.Pair, ",")
		if moved, ok := strings.CutSuffix(pair, " of another register"); ok {
			list[moved] = min(list[moved], max(0, m.Cycles())) // renaming eliminates it
			continue
		}
		list[pair] = max(list[pair], m.Cycles())
	}
	return list
}
