package profiler

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/simulated"
)

// Blocks as compilers make them: median size, with loads, stores, a stack, a vector part.
var typical = []string{
	"488b4510488b75204839f0",
	"5389fb85c0",
	"4189442418488b430848834310016683401c01",
	"f20f1008660f28c1f20f118d40ffffff",
	"4883c2084801c84889d7",
	"c5fb1002c5fb58400848890a",
	"554889e5534883ec18488b07",
	"418b471089842480000000488b4424704885c0",
}

// BenchmarkStages says what a block costs at the default precision and where: preparing it
// (decode, lay out, map, trace, judge), timing it, checking a third factor; and how much of all
// that is spent between clock readings that count.
func BenchmarkStages(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpus, err := host.AllowedCPUs()
	if err != nil {
		b.Fatal(err)
	}
	slices.Reverse(cpus) // as New does
	s, err := newSession(b.Context(), Options{CPUs: cpus}.WithDefaults(), simulated.Machine{})
	require.Measure(b, err)
	defer s.discard()
	var prepare, timing, third time.Duration
	var timed float64
	n, windows, dropped := 0, 0, 0
	for b.Loop() {
		for _, h := range typical {
			block := Block{Code: unhex(b, h)}
			j := s.job(block)
			var m measured
			var err error
			prepare += took(func() { m.mapped, err = s.prepareBlock(block) })
			if err == nil {
				timing += took(func() { m.timed, err = s.time(m.mapped, j.plan(m.mapped)) })
			}
			if err == nil {
				third += took(func() { m, err = s.linear(j, m) })
			}
			if err != nil {
				b.Log(err) // a core that is not left alone ends timing, not the benchmark
			}
			timed += m.timed.Seconds
			windows += len(m.timed.Windows)
			dropped += m.timed.WindowsUnsteady
			n++
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	b.ReportMetric(per(prepare), "µs-prepare/block")
	b.ReportMetric(per(timing), "µs-time/block")
	b.ReportMetric(per(third), "µs-third/block")
	b.ReportMetric(float64(windows)/float64(n), "windows/block")
	b.ReportMetric(float64(dropped)/float64(n), "dropped/block")
	all := prepare + timing + third
	b.ReportMetric(float64(n)/all.Seconds(), "blocks/s")
	b.ReportMetric(100*timed/all.Seconds(), "%timed-code")
}

// took is how long a step takes.
func took(step func()) time.Duration {
	began := time.Now()
	step()
	return time.Since(began)
}
