package profiler

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// mapped returns a block in the first of some initial states in which it runs, or its rejection.
func (b bench) mapped(code []byte, inits []initial.State, frames, copies int) (*mapping.MappedBlock, *verdict.Rejection) {
	b.t.Helper()
	task, err := b.unjudged(code, frames, copies)
	if err == nil {
		var m *mapping.MappedBlock
		if m, err = task.Prepare(inits); err == nil {
			return m, nil
		}
	}
	return nil, rejectionOf(b.t, err)
}

// sameState describes the difference between plain and instrumented copies; ok: the block can be instrumented.
func (b bench) sameState(r *mapping.MappedBlock) (difference string, ok bool) {
	b.t.Helper()
	probe, err := asm.NewProbe(r.Insts, b.cpu.Features, layout.SlotScratch)
	if err != nil {
		return "", false
	}
	plain := b.build(r, r.Factors.Long)
	probed := require.Get(harness.BuildProbed(r.Long.End(), r.Insts, r.Factors.Long, harnessOf(r), probe))(b.t)
	return b.run(r, plain).difference(b.run(r, probed)), true
}

// fold joins the iterations of rep string operations, and sorts the accesses of an instruction by operand.
func fold(steps []asm.Access) []asm.Access {
	var all []asm.Access
	for i := 0; i < len(steps); {
		first := steps[i]
		from := len(all)
		for ; i < len(steps) && steps[i].Copy == first.Copy && steps[i].Inst == first.Inst; i++ {
			a := steps[i]
			k := slices.IndexFunc(all[from:], func(x asm.Access) bool { return x.Mem == a.Mem })
			if k < 0 {
				all = append(all, a)
				continue
			}
			all[from+k].Addr = min(all[from+k].Addr, a.Addr)
			all[from+k].Width += a.Width
		}
		slices.SortStableFunc(all[from:], func(x, y asm.Access) int { return x.Mem - y.Mem })
	}
	return all
}

// sameAccesses compares the log with the accesses of single steps, for the operands that both know.
func (b bench) sameAccesses(r *mapping.MappedBlock) string {
	b.t.Helper()
	steps := require.Get(r.Stepped(r.Factors.Long, generous))(b.t)
	logged := slices.DeleteFunc(slices.Clone(r.Trace.Accesses), func(a asm.Access) bool {
		m := r.Insts[a.Inst].Mem[a.Mem]
		return m.Elements > 0 || m.Mask != asm.NoRegister // single steps do not see vector and mask registers
	})
	steps = fold(steps)
	// Copies beyond the trace repeat the accesses of its last copy.
	last := slices.DeleteFunc(slices.Clone(logged), func(a asm.Access) bool { return a.Copy != r.Trace.Copies-1 })
	for c := r.Trace.Copies; c < r.Factors.Long; c++ {
		for _, a := range last {
			a.Copy = c
			logged = append(logged, a)
		}
	}
	for i := range max(len(logged), len(steps)) {
		if i >= len(logged) || i >= len(steps) || logged[i] != steps[i] {
			at := func(list []asm.Access) string {
				if i >= len(list) {
					return "no more"
				}
				return fmt.Sprintf("%s %+v", r.Insts[list[i].Inst].Text(), list[i])
			}
			return fmt.Sprintf("access %d of %d and %d: logged %s, stepped %s", i, len(logged), len(steps), at(logged), at(steps))
		}
	}
	return ""
}

// ownBlock is a line of testdata/blocks-own.csv.
type ownBlock struct {
	code   []byte
	expect string // "runs" or a reason
	needs  []cpuid.FeatureID
	text   string
}

func ownBlocks(t *testing.T) (blocks []ownBlock) {
	t.Helper()
	f := require.Get(os.Open("../testdata/blocks-own.csv"))(t)
	defer f.Close()
	rows := require.Get(csv.NewReader(f).ReadAll())(t)
	for _, row := range rows[1:] {
		b := ownBlock{code: require.Hex(t, row[0]), expect: row[1], text: row[3]}
		for _, name := range strings.Fields(strings.Trim(row[2], "-")) {
			feature := cpuid.ParseFeature(name)
			if feature == cpuid.UNKNOWN {
				t.Fatalf("no CPU feature is called %q", name)
			}
			b.needs = append(b.needs, feature)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// TestInstrumented: blocks that the corpus lacks run or fail as expected, and those and blocks of the corpus have the same log as single steps,
// without an effect on their state. At least 97 % run.
func TestInstrumented(t *testing.T) {
	b := openBench(t)
	blocks := ownBlocks(t)
	for _, code := range require.CorpusSample(t, 50) {
		blocks = append(blocks, ownBlock{code: code})
	}
	outcomes := map[string]int{}
	total, run := 0, 0
	for i, own := range blocks {
		if testing.Short() && i%5 != 0 {
			continue
		}
		if !cpuid.CPU.Has(cpuid.AVX) && len(own.needs) > 0 || !cpuid.CPU.Supports(own.needs...) {
			outcomes["not on this CPU"]++
			continue
		}
		total++
		// With one frame an access at a wrong address is hardest to detect, with many easiest.
		inits, frames := initial.States(), 1
		if i%2 == 1 {
			inits, frames = slices.Concat(inits[1:], inits[:1]), layout.MaxFrames
		}
		r, rejection := b.mapped(own.code, inits, frames, 3)
		got := "runs"
		if rejection != nil {
			got = string(rejection.Reason)
		}
		outcomes[got]++
		if own.expect != "" && got != own.expect {
			t.Errorf("%x %s: %s, want %s: %v", own.code, own.text, got, own.expect, rejection)
		}
		if r == nil {
			continue
		}
		run++
		if d := b.sameAccesses(r); d != "" {
			t.Errorf("%x %s (%s): %s", own.code, own.text, r.Plan.Init.Name, d)
		}
		if d, _ := b.sameState(r); d != "" {
			t.Errorf("%x %s (%s): plain and instrumented: %s", own.code, own.text, r.Plan.Init.Name, d)
		}
	}
	t.Log(outcomes)
	if share := float64(run) / float64(total); share < 0.97 {
		t.Errorf("only %.1f %% of %d blocks run", 100*share, total)
	}
}
