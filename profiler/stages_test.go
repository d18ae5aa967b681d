package profiler

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/mapper"
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

// BenchmarkStages says what each part of the path costs a block: preparing (decode, lay out,
// map), the trace with its rules, and timing at the default precision.
func BenchmarkStages(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpus, err := host.AllowedCPUs()
	if err != nil {
		b.Fatal(err)
	}
	s, err := newSession(Options{CPUs: cpus, Budget: 3 * time.Second})
	if err != nil {
		b.Skip(err)
	}
	defer s.close()
	var prepare, trace, timing time.Duration
	n := 0
	for b.Loop() {
		for _, h := range typical {
			r := &run{session: s, ctx: context.Background(), block: Block{unhex(b, h)}, inits: s.inits}
			r.plan = mapper.Plan{Init: s.inits[0], Frames: 1, Limit: runLimit, Fresh: s.fresh}
			prepare += timed(b, r.decode, r.refuse, r.choose, func() error { r.plan.Insts = r.insts; return nil }, r.mapPages, func() error {
				r.dirty = r.mapping.Dirty(r.child, r.plan.Init)
				return nil
			}, r.findDirty)
			trace += timed(b, r.trace, r.judgeTrace)
			if err := r.mapPages(); err != nil {
				b.Fatal(err)
			}
			timing += timed(b, r.time)
			n++
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	b.ReportMetric(per(prepare), "µs-prepare/block")
	b.ReportMetric(per(trace), "µs-trace/block")
	b.ReportMetric(per(timing), "µs-time/block")
	b.ReportMetric(float64(n)/(prepare+trace+timing).Seconds(), "blocks/s")
}

func timed(b *testing.B, steps ...func() error) time.Duration {
	b.Helper()
	began := time.Now()
	for _, step := range steps {
		if err := step(); err != nil {
			b.Log(err) // a core that is not left alone ends timing, not the benchmark
		}
	}
	return time.Since(began)
}
