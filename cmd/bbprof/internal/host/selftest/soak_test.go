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

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool/pooltest"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
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
	p := pooltest.New(t, profiler.Options{}).Profiler
	blocks := require.Get(Blocks())(t)
	known := slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return !b.Short })
	series := map[string][]float64{} // by what is watched, a value a round
	add := func(what string, value float64) { series[what] = append(series[what], value) }
	const perRound, rate, memory, files = 400, "hostile blocks a second", "bytes resident", "open files"
	for end := time.Now().Add(length); time.Now().Before(end); {
		rng := rand.New(rand.NewPCG(3, 4))
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
				add(b.Text, result.Cycles)
			}
		}
		add(rate, perRound/spent.Seconds())
		bytes, open := inUse(t)
		add(memory, float64(bytes))
		add(files, float64(open))
	}
	if rounds := len(series[rate]); rounds < 4 {
		t.Fatalf("only %d rounds", rounds)
	}
	for what, values := range series {
		values = values[1:] // the first round warms up
		if len(values) < 4 {
			t.Logf("%s was hardly ever measured: the core is not left alone", what)
			continue
		}
		before, after := stat.Median(values[:len(values)/2]), stat.Median(values[len(values)/2:])
		t.Logf("%s: %.4f and then %.4f; %.4f to %.4f in %d rounds", what, before, after, slices.Min(values), slices.Max(values), len(values))
		moved, off := false, 0
		switch what {
		case rate:
			moved = after < 0.7*before
		case memory:
			moved = after > before+4<<20
		case files:
			moved = after != before
		default:
			moved = math.Abs(after-before) > 0.005*before
			for _, cycles := range values {
				if math.Abs(cycles-before) > 0.02*before {
					off++
				}
			}
		}
		// Where others use the machine, one time in some hundred that are accepted may be off.
		if moved || off > 1+len(values)/100 {
			t.Errorf("%s moved from %.4f to %.4f, and was off in %d of %d rounds", what, before, after, off, len(values))
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
