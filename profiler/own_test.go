package profiler

import (
	"encoding/csv"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
)

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
		b := ownBlock{code: unhex(t, row[0]), expect: row[1], text: row[3]}
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

// TestOwnBlocks: blocks that the corpus lacks run or fail as expected, and have the same log as
// single steps, without an effect on their state. At least 98.5 % run.
func TestOwnBlocks(t *testing.T) {
	b := openBench(t)
	outcomes := map[string]int{}
	total, run := 0, 0
	for i, own := range ownBlocks(t) {
		if testing.Short() && i%5 != 0 {
			continue
		}
		if !cpuid.CPU.Has(cpuid.AVX) && len(own.needs) > 0 || !cpuid.CPU.Supports(own.needs...) {
			outcomes["not on this CPU"]++
			continue
		}
		total++
		inits, frames := states(i)
		if i%2 == 0 {
			inits = initial.States()
		}
		r, rejection := b.mapped(own.code, inits, frames, 2)
		got := "runs"
		if rejection != nil {
			got = string(rejection.Reason)
		}
		outcomes[got]++
		if got != own.expect {
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
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%5d %s", outcomes[o], o)
	}
	if share := float64(run) / float64(total); share < 0.985 {
		t.Errorf("only %.1f %% of %d blocks run", 100*share, total)
	}
}
