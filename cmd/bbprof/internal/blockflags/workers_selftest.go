package blockflags

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/selftest"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/unroll"
)

func selftestLine(outcomes []selftest.Outcome) string {
	line := selftest.Count(outcomes).String()
	for _, o := range outcomes {
		if o.Status == selftest.Fail {
			got := o.Why
			if o.Cycles > 0 {
				got = fmt.Sprintf("%.3f cycles", o.Cycles)
			}
			line += fmt.Sprintf("; %s: %s, expected %v", o.Text, got, o.Expected())
		}
	}
	return line
}

// Selftest runs the short selftest on every worker and returns one line, "" if ctx ended it. Other errors would also
// end the batch. copies are the batch's, if the user chose them.
func (w Workers) Selftest(ctx context.Context, cpu host.CPU, copies *unroll.Factors) (line string, failed bool) {
	var others *unroll.Factors
	if copies != nil && copies.Short == 0 { // one image alone, of which no time is known
		others = &selftest.Copies
	}
	outcomes := make([][]selftest.Outcome, len(w))
	errs := make([]error, len(w))
	var running sync.WaitGroup
	for i, p := range w {
		running.Go(func() { outcomes[i], errs[i] = selftest.Run(ctx, p.Profiler, cpu, selftest.Short, others) })
	}
	running.Wait()
	if ctx.Err() != nil {
		return "", false
	}
	if err := errors.Join(errs...); err != nil {
		return "none: " + err.Error(), true
	}
	var all []selftest.Outcome
	for _, o := range outcomes {
		all = append(all, o...)
	}
	return selftestLine(all), selftest.Count(all).Fail > 0
}

// SelftestAtStart warns of a failure but does not stop: the user may know the cause.
func (w Workers) SelftestAtStart(ctx context.Context, cpu host.CPU, stderr io.Writer, copies *unroll.Factors) string {
	line, failed := w.Selftest(ctx, cpu, copies)
	if failed {
		hint := "bbprof selftest tells more"
		if copies != nil && copies.Short > 0 {
			hint = "-unroll may be why: so many copies need not fit the op cache"
		}
		fmt.Fprintf(stderr, "bbprof: warning: the selftest fails, so results may be wrong too: %s (%s)\n", line, hint)
	}
	return line
}
