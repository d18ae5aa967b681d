// Package batch measures a corpus: rows in, blocks to workers, rows out.
//
// Workers fetch for themselves. When one is done with a block, the thread that measured it
// writes the row and takes the next block, under a lock; no other thread is woken for that,
// since on a machine where every core measures it would take one from its block. For the same
// reason the goroutine that reads the input sleeps until half of what it read is taken. A row
// goes out as soon as its block is known. Into a file that is the order in which blocks are
// done, so that a run that is killed has lost what was in flight or waited for another try, and nothing else;
// [Output.Sort] puts the file in order at the end. A pipe gets its rows in order, from a
// window of rows that wait.
//
// A block that was rejected for noise, is put aside and measured again when the rest is done:
// at another time, on another worker. A block that comes again is not measured again: its row
// is looked up in the file.
package batch

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
)

// Source gives rows, io.EOF after the last. A *corpus.Input is one.
type Source interface {
	Next() (input.Row, error)
}

type Options struct {
	Workers []measure.Measurer
	Retries int // of a block that was rejected for noise
	Shard   Shard
	Set     initial.Set // of all rows, where their own do not say otherwise
	// Visit names the captured state that a row's block starts from; nil where none does.
	Visit func(*input.Row) string
	Run   resultfile.Run
	// Progress is called from the goroutine of Run, a few times a second.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Tally *Tally // valid during the call
	Bytes int64  // of the input, as stored, up to about the latest row
	Aside int    // blocks that wait for their retry
	Ended bool   // the input has been read
}

// ErrInterrupted ends a run whose context ended: blocks in flight were finished and written.
var ErrInterrupted = errors.New("interrupted")

const (
	maxAside = 5_000    // rows that wait for a retry, until the first of them get theirs: each has a result, of some 4 kB
	maxHeld  = 32 << 20 // bytes of rows whose block is not known yet, until no more are taken
	// Retries at the end take no longer than all that came before them, or than this where that was less: on
	// a core that is never idle each takes its whole budget, and a batch of seconds took nine minutes.
	leastRetries = 10 * time.Second
	tick         = 250 * time.Millisecond
)

// Run measures the rows of in that out does not have yet. An error is in's, a *WriteError, a
// measurer's, or ErrInterrupted; whatever was measured until there is written.
func Run(ctx context.Context, in Source, out *Output, opts Options) (Tally, error) {
	r := &run{
		Options: opts, began: time.Now(), out: out, tally: out.tally, id: opts.Run.ID(), header: opts.Run.String(),
		pending: map[string]*job{},
	}
	r.ahead = newAhead(func() {
		r.pool.Lock() // else a worker might miss it between looking and waiting
		defer r.pool.Unlock()
		r.pool.Wake()
	})
	go r.ahead.feed(&filter{in, &out.done, opts.Shard, r.found})
	defer r.ahead.stop()

	finished := make(chan struct{})
	go func() {
		defer close(finished)
		measure.Run(&r.pool, opts.Workers, measure.Jobs[job]{Take: r.next, Done: r.done, Block: func(j *job) profiler.Block {
			return profiler.Block{Code: j.code, Setup: j.setup}
		}})
	}()
	r.watch(ctx, finished)
	r.tally.Seconds = time.Since(r.began).Seconds()
	return r.tally, r.pool.Failed
}

type run struct {
	Options
	began time.Time
	out   *Output
	ahead *ahead
	id    string

	pool measure.Pool // guards what follows, and out

	tally   Tally
	header  string // until it is written
	seq     int64
	bytes   int64
	ended   bool            // the input
	pending map[string]*job // by identity: from when it is known to when it is written
	aside   []*job          // for their retry
	rows    int             // that wait for these
	held    int             // bytes of all rows in pending
	retryBy time.Time       // when retries at the end have taken long enough; zero before the first
	silent  bool            // at the last tick all waited, and nothing has happened since
}

type job struct {
	key   uint64
	id    string // see run.identity
	code  []byte
	setup profiler.Setup
	try   int // how often it was given to a worker
	last  int // the worker that had it
	rows  []waiting
	aside bool // it waits for its retry

	result profiler.Result // the last
}

// waiting is a row whose block is not known yet. seq counts the rows of this run.
type waiting struct {
	seq int64
	row input.Row
}

// watch reports the progress until the run is finished, and passes an interrupt on.
func (r *run) watch(ctx context.Context, finished <-chan struct{}) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case <-finished:
			return
		case <-interrupted:
			interrupted = nil
			r.pool.Lock()
			r.pool.End(ErrInterrupted)
			r.pool.Unlock()
		case <-ticks.C:
			r.pool.Lock()
			r.silent = r.pool.Waiting == len(r.Workers)
			if r.silent {
				r.pool.Wake()
			}
			if r.Progress != nil {
				r.Progress(Progress{&r.tally, r.bytes, len(r.aside), r.ended})
			}
			r.pool.Unlock()
		}
	}
}

// next is the next block for a worker, as measure.Jobs has it.
func (r *run) next(worker int) (*job, bool, error) {
	j, err := r.find(worker)
	if j != nil {
		j.try++
		j.last = worker
	}
	return j, !r.ended || len(r.pending) > 0, err
}

func (r *run) done(j *job, result profiler.Result, err error) error {
	if err != nil {
		r.aside = append(r.aside, j) // an earlier try may have its number
		return err
	}
	return r.finish(j, result)
}

// find takes rows until one has a block to measure; if there is none, or it is time for
// retries, a block that was put aside; nil if there is none now.
func (r *run) find(worker int) (*job, error) {
	for !r.ended && !r.retryNow() && !r.stuck() {
		f, ok := r.ahead.take()
		if !ok {
			break
		}
		r.silent = false
		j, err := r.take(f)
		if j != nil || err != nil {
			return j, err
		}
	}
	if !r.retryNow() {
		return nil, nil
	}
	if r.retriedLong() {
		return nil, r.giveUp()
	}
	return r.takeAside(worker), nil
}

// retriedLong reports whether retries at the end have had their time.
func (r *run) retriedLong() bool {
	if !r.ended {
		return false
	}
	now := time.Now()
	if r.retryBy.IsZero() {
		r.retryBy = now.Add(max(now.Sub(r.began), leastRetries))
	}
	return now.After(r.retryBy)
}

// giveUp leaves what waits for a retry with the rejection that it has.
func (r *run) giveUp() error {
	for _, j := range r.aside {
		if err := r.write(j, j.result); err != nil {
			return err
		}
	}
	r.aside, r.rows = nil, 0
	return nil
}

// stuck reports whether so much waits for a block that no more rows should come.
func (r *run) stuck() bool { return r.held >= maxHeld || r.out.stuck() }

// retryNow reports whether it is time to measure again what was put aside: at the end of the
// input; before that only when too many have gathered or wait for them, or no one has anything else to do.
func (r *run) retryNow() bool {
	switch {
	case len(r.aside) == 0:
		return false
	case r.ended, r.rows >= maxAside, r.stuck():
		return true
	}
	return r.silent
}

// lookAhead is how many blocks are asked whether another worker had them last.
const lookAhead = 64

// takeAside is the next block to be looked at again by a worker that did not have it last. Where
// all were its own it takes one of those, but for a few that it leaves to the others: their cores
// may be busy for minutes, and then it would wait for as long. nil is none.
func (r *run) takeAside(worker int) *job {
	next := r.aside[:min(len(r.aside), lookAhead)]
	i := slices.IndexFunc(next, func(j *job) bool { return j.last != worker })
	if i < 0 {
		if others := len(r.Workers) - 1; r.ended && len(next) <= 2*others {
			return nil
		}
		i = 0
	}
	j := next[i]
	copy(r.aside[1:], r.aside[:i]) // there may be many after it
	r.aside = r.aside[1:]
	r.rows -= len(j.rows)
	j.aside = false
	return j
}

// take is a row of the input; the job is one to measure now.
func (r *run) take(f fed) (*job, error) {
	if errors.Is(f.err, io.EOF) {
		r.ended = true
		r.pool.Wake()
		return nil, nil
	}
	if f.err != nil {
		return nil, f.err
	}
	w := waiting{r.seq, f.row}
	r.seq++
	r.bytes = f.row.End
	if f.row.Rejection != nil {
		e := resultfile.Entry{Row: f.row, Result: f.row.Rejected(), RunID: r.id, RunHeader: r.header}
		return nil, r.put(w.seq, r.out.schema.Cells(&e), nil)
	}
	id, visit := r.identity(&f.row)
	if j, ok := r.pending[id]; ok {
		j.rows = append(j.rows, w)
		r.held += f.row.Size()
		if j.aside {
			r.rows++
		}
		return nil, nil
	}
	key := hash([]byte(id))
	cells, err := r.out.measured(key, f.row.Hex())
	if err != nil {
		return nil, &WriteError{err}
	}
	if cells != nil {
		return nil, r.repeat(w, cells)
	}
	j := &job{key: key, id: id, code: f.row.Code, setup: profiler.Setup{Address: f.row.At, Set: f.row.Set, Visit: visit}, rows: []waiting{w}}
	r.pending[j.id] = j
	r.held += f.row.Size()
	return j, nil
}

// identity is that of a row's block, and the captured state that it starts from.
func (r *run) identity(row *input.Row) (id, visit string) {
	id = Identity(row.Code, row.At, r.Set.With(row.Set).String())
	if r.Visit != nil {
		visit = r.Visit(row)
		id += "\x00state " + visit
	}
	return id, visit
}

// found is a row whose block an earlier run measured. The row of input is what identifies it: the result does not tell what
// was set from which registers bbprof moved.
func (r *run) found(row *input.Row, at int64) {
	if row.Rejection != nil {
		return
	}
	id, _ := r.identity(row)
	r.pool.Lock()
	defer r.pool.Unlock()
	r.out.at[hash([]byte(id))] = at
}

// repeat is a row whose block was measured for another.
func (r *run) repeat(w waiting, measured []string) error {
	e := resultfile.Entry{Row: w.row, DuplicateOf: number(measured[r.out.row]), RunHeader: r.header}
	return r.put(w.seq, r.out.schema.Repeat(measured, &e), nil)
}

// finish takes a block that a worker has finished.
func (r *run) finish(j *job, result profiler.Result) error {
	r.silent = false
	r.tally.TimedSeconds += result.TimedSeconds
	r.tally.Stops += int64(result.Stops)
	r.tally.SystemCalls += int64(result.SystemCalls)
	if result.Noisy() && j.try <= r.Retries {
		j.aside, j.result = true, result
		r.aside = append(r.aside, j)
		r.rows += len(j.rows)
		r.pool.Wake()
		return nil
	}
	if r.cannotWrite() {
		return nil
	}
	return r.write(j, result)
}

func (r *run) cannotWrite() bool {
	_, writing := errors.AsType[*WriteError](r.pool.Failed)
	return writing
}

func (r *run) write(j *job, result profiler.Result) error {
	delete(r.pending, j.id)
	for _, w := range j.rows {
		r.held -= w.row.Size()
	}
	r.tally.Measured++
	first := j.rows[0]
	e := resultfile.Entry{Row: first.row, Result: result, Tries: j.try, RunID: r.id, RunHeader: r.header}
	cells := r.out.schema.Cells(&e)
	if err := r.put(first.seq, cells, &j.key); err != nil {
		return err
	}
	for _, w := range j.rows[1:] {
		if err := r.repeat(w, cells); err != nil {
			return err
		}
	}
	r.pool.Wake()
	return nil
}

func (r *run) put(seq int64, cells []string, key *uint64) error {
	if err := r.out.put(seq, cells, key); err != nil {
		return err
	}
	r.header = ""
	r.tally.add(r.out.columns, cells)
	return nil
}
