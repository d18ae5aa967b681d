package pmu_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// TestProcess: both kinds of read, a counter that somebody else holds, and none at all.
func TestProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*pmutest.Kernel)
		says string // "": it counts
	}{
		{"free", func(*pmutest.Kernel) {}, ""},
		{"none", func(k *pmutest.Kernel) { k.Refuse = syscall.ENOENT }, "virtual PMU"},
		{"forbidden", func(k *pmutest.Kernel) { k.Paranoid(3) }, "perf_event_paranoid"},
		{"shared", func(k *pmutest.Kernel) { k.Share = func(int) float64 { return 0.5 } }, "other users"},
		{"taken away", func(k *pmutest.Kernel) { k.Share = func(int) float64 { return 0 } }, "other users"},
	} {
		for _, a := range []pmu.Attr{pmu.ProcessCycles, pmu.ProcessInstructions} {
			k := pmutest.New(4)
			k.Counts = func(a pmu.Attr) uint64 { return 500 + a.Config }
			c.set(k)
			n, err := count(k, a)
			host := (*verdict.HostError)(nil)
			if c.says == "" && (err != nil || n != 500+a.Config) || c.says != "" && !(errors.As(err, &host) && strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s, event %d: %d, %v", c.name, a.Config, n, err)
			}
			require.Equal(t, c.name, k.Refuse == nil, pmu.CanCount(k, a))
			require.Equal(t, c.name+", events left open", 0, k.Left())
		}
	}
}

func count(k pmu.Kernel, a pmu.Attr) (uint64, error) {
	p, err := pmu.OpenProcess(k, a, 1234)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	if err := p.Start(); err != nil {
		return 0, err
	}
	return p.Stop()
}
