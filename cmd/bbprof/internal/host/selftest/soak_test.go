package selftest

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestSoak alternates hostile blocks with blocks whose time is known, for as long as
// BBPROF_SOAK says (make soak). The hostile ones are the same in each round, so that rounds can
// be compared: neither their rate nor the memory in use nor the known times may move.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("BBPROF_SOAK"))
	if err != nil {
		require.Skip(t, require.Long, "BBPROF_SOAK gives no time, such as 30m")
	}
	p := start(t)
	blocks := require.Get(Blocks())(t)
	known := slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return !b.Short })
	type round struct {
		rate     float64 // hostile blocks a second
		memory   int     // bytes resident
		files    int
		measured map[string]float64
	}
	var rounds []round
	const perRound = 400
	for end := time.Now().Add(length); time.Now().Before(end); {
		rng := rand.New(rand.NewPCG(3, 4))
		r := round{measured: map[string]float64{}}
		var spent time.Duration
		for i := range perRound {
			code := hostile.RandomBytes(rng)
			switch i % 3 {
			case 1:
				code = hostile.ValidBlock(rng)
			case 2:
				code = hostile.Mutated(rng, blocks[rng.IntN(len(blocks))].Code)
			}
			began := time.Now()
			result, err := p.Profile(context.Background(), profiler.Block{Code: code})
			spent += time.Since(began)
			if err != nil || result.Status == profiler.Failed {
				t.Fatalf("%x: %v %s", code, err, result.Failure)
			}
			if i%(perRound/len(known)) != 0 {
				continue
			}
			b := known[i/(perRound/len(known))%len(known)]
			if result, err = p.Profile(context.Background(), profiler.Block{Code: b.Code}); err != nil {
				t.Fatal(err)
			}
			if result.Status == profiler.OK {
				r.measured[b.Text] = result.Cycles
			}
		}
		r.rate = perRound / spent.Seconds()
		r.memory, r.files = inUse(t)
		rounds = append(rounds, r)
		t.Logf("round %d: %.1f hostile blocks/s, %.1f MiB, %d files, %v", len(rounds), r.rate, float64(r.memory)/(1<<20), r.files, r.measured)
	}
	if len(rounds) < 4 {
		t.Fatalf("only %d rounds", len(rounds))
	}
	// The first round warms up; what is compared are halves of the others.
	early, late := rounds[1:1+len(rounds)/2], rounds[1+len(rounds)/2:]
	sorted := func(rounds []round, of func(round) (value float64, known bool)) (v []float64) {
		for _, r := range rounds {
			if value, known := of(r); known {
				v = append(v, value)
			}
		}
		slices.Sort(v)
		return v
	}
	medians := func(of func(round) (float64, bool)) (a, b float64) {
		before, after := sorted(early, of), sorted(late, of)
		return before[len(before)/2], after[len(after)/2]
	}
	if a, b := medians(func(r round) (float64, bool) { return r.rate, true }); b < 0.7*a {
		t.Errorf("the rate fell from %.1f to %.1f blocks/s", a, b)
	}
	if a, b := medians(func(r round) (float64, bool) { return float64(r.memory), true }); b > a+4<<20 {
		t.Errorf("memory grew from %.0f to %.0f bytes", a, b)
	}
	if a, b := rounds[1].files, rounds[len(rounds)-1].files; a != b {
		t.Errorf("%d files are open, there were %d", b, a)
	}
	for _, b := range known {
		of := func(r round) (float64, bool) { c, ok := r.measured[b.Text]; return c, ok }
		all := sorted(rounds, of)
		if len(sorted(early, of)) == 0 || len(sorted(late, of)) == 0 {
			t.Logf("%s was hardly ever measured: the core is not left alone", b.Text)
			continue
		}
		t.Logf("%s: %.4f to %.4f cycles in %d rounds", b.Text, all[0], all[len(all)-1], len(all))
		if before, after := medians(of); math.Abs(after-before) > 0.005*before {
			t.Errorf("%s moved from %.4f to %.4f cycles", b.Text, before, after)
		}
		// Where others use the machine, one in some hundred that are accepted may be off.
		off, middle := 0, all[len(all)/2]
		for _, c := range all {
			if math.Abs(c-middle) > 0.02*middle {
				off++
			}
		}
		if off > 1+len(all)/100 {
			t.Errorf("%s was off by 2 %% in %d of %d rounds: %.4f to %.4f cycles", b.Text, off, len(all), all[0], all[len(all)-1])
		}
	}
}

// inUse is this process's memory and files.
func inUse(t *testing.T) (bytes, files int) {
	t.Helper()
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	if f := strings.Fields(string(statm)); len(f) > 1 {
		pages, _ := strconv.Atoi(f[1])
		bytes = pages * os.Getpagesize()
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	return bytes, len(fds)
}
