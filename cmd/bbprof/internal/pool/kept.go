package pool

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/profiler"
)

// keptResult is a result as a journal keeps it. gob drops pointers to 0, so these are listed.
type keptResult struct {
	profiler.Result
	ZeroCounts  []int
	ZeroAddress bool
}

func init() { journal.Register(keptResult{}) }

func newKept(r profiler.Result) keptResult {
	k := keptResult{Result: r}
	for i, c := range r.Counters {
		if c.PerIteration != nil && *c.PerIteration == 0 {
			k.ZeroCounts = append(k.ZeroCounts, i)
		}
	}
	k.ZeroAddress = r.Rejection != nil && r.Rejection.Address != nil && *r.Rejection.Address == 0
	return k
}

func (k keptResult) result() profiler.Result {
	for _, i := range k.ZeroCounts {
		k.Counters[i].PerIteration = new(float64)
	}
	if k.ZeroAddress {
		k.Rejection.Address = new(uint64)
	}
	return k.Result
}

// Kept says where measurements are kept, and the options by which they are made.
type Kept struct {
	Journal *journal.Journal
	Options profiler.Options
}

func (k *Kept) key(b profiler.Block) string {
	o := k.Options
	o.CPUs = nil
	text, _ := json.Marshal(struct {
		Options profiler.Options
		Code    []byte
		Setup   profiler.Setup
	}{o, b.Code, b.Setup}) // cannot fail for text and numbers
	return fmt.Sprintf("%x", sha256.Sum256(text))[:24]
}

func (k *Kept) take(b profiler.Block) (r profiler.Result, ok bool) {
	v, _ := k.Journal.Take(k.key(b))
	kept, ok := v.(keptResult)
	if ok {
		r = kept.result()
	}
	return r, ok
}

// keep keeps a result, but not what the machine alone was to blame for: it may be idle by the next start.
func (k *Kept) keep(b profiler.Block, r profiler.Result, err error) error {
	if err != nil || r.Status == profiler.Failed || otherWork(r.Reason) {
		return err
	}
	return k.Journal.Keep(k.key(b), newKept(r))
}

// ProfileCloser returns a profiler that asks the journal first, and keeps its results there.
func (k Kept) ProfileCloser(p ProfileCloser) ProfileCloser {
	if k.Journal == nil {
		return p
	}
	return &keptProfiler{k, p}
}

type keptProfiler struct {
	Kept
	ProfileCloser
}

func (p *keptProfiler) Profile(ctx context.Context, b profiler.Block) (profiler.Result, error) {
	if err := ctx.Err(); err != nil {
		return profiler.Result{}, err
	}
	if r, ok := p.take(b); ok {
		return r, nil
	}
	r, err := p.ProfileCloser.Profile(ctx, b)
	return r, p.keep(b, r, err)
}

// Measurer is Profiler for a Measurer.
func (k Kept) Measurer(m Measurer) Measurer {
	if k.Journal == nil {
		return m
	}
	return &keptMeasurer{k, m}
}

type keptMeasurer struct {
	Kept
	Measurer
}

func (m *keptMeasurer) ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	var current profiler.Block
	return m.Measurer.ProfileAll(ctx, func() (b profiler.Block, ok bool) {
		for {
			if current, ok = next(); !ok {
				return current, false
			}
			r, known := m.take(current)
			if !known {
				return current, true
			}
			done(r, nil)
		}
	}, func(r profiler.Result, err error) { done(r, m.keep(current, r, err)) })
}
