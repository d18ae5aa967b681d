// Package batch measures a corpus: rows in, blocks to workers, rows out.
//
// Workers fetch their own work. The thread that measured a block writes the row and takes the next block, under a
// lock. It wakes no other thread, which on a fully used machine would disturb another measurement. For the same
// reason the goroutine that reads the input sleeps until half of what it read is taken. A row is written as soon
// as its block is measured. A file gets rows in order of completion, so a killed run loses only what was in flight
// or waited for a retry; [Output.Sort] sorts the file at the end. A pipe gets its rows in order, from a window of
// waiting rows.
//
// A block rejected for noise is put aside and measured again when the rest is done: at another time, on another
// worker. A repeated block is not measured again: its row is looked up in the file.
//
// Between the rows each worker measures known blocks ([Control]). A row is final once those after it are right; else it is
// rejected as busy_core, in a row that takes its place in the file, and measured again. A file may thus have several rows
// of one number, of which the last counts; sorting drops the others. What shows only at the end is measured
// again by resuming, which takes rows of a busy core for missing.
package batch

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
)

type Options struct {
	Workers []pool.Measurer
	Retries int // of a block rejected for noise
	Shard   Shard
	Set     initial.Set // for all rows; a row's own setting takes precedence
	// Visit returns the captured state that a row's block starts from; nil if none does.
	Visit func(*input.Row) string
	// Prepare completes a block before it is measured. If that fails, so does the block, and at an *input.ReadError the run.
	Prepare func(*profiler.Block) error
	Finish  func(*profiler.Result) // completes a result
	// Controls are measured between the rows; none if empty.
	Controls []Control
	Run      resultfile.Run
	// Progress is called a few times a second on the goroutine of Run.
	Progress func(Progress)
}

type Progress struct {
	Tally *Tally // valid only during the call
	Bytes int64  // stored bytes of the input up to about the latest row
	Aside int    // blocks that wait for a retry
	Ended bool   // all input was read
}

// ErrInterrupted reports that the context ended; blocks in flight were finished and written.
var ErrInterrupted = errors.New("interrupted")

const (
	maxAside = 5_000    // blocks waiting for a retry before the first get it; each holds a result of some 4 kB
	maxHeld  = 32 << 20 // bytes of rows with unmeasured blocks before no more are read
	tick     = 250 * time.Millisecond
)

// Run measures the rows of in that out lacks. The error is in's, a *WriteError, a measurer's, or ErrInterrupted;
// finished blocks are written in any case.
func Run(ctx context.Context, in *input.Input, out *Output, opts Options) (Tally, error) {
	r := &run{
		Options: opts, began: time.Now(), out: out, tally: out.tally, id: opts.Run.ID(), header: opts.Run.String(),
		pending: map[string]*job{}, controls: newControls(opts.Controls, len(opts.Workers)),
	}
	r.ahead = &ahead{filling: true, onRows: func() {
		r.pool.Lock() // otherwise a worker might miss it between checking and waiting
		defer r.pool.Unlock()
		r.pool.Wake()
	}}
	r.ahead.room.L = &r.ahead.mu
	go (&filter{in, out.done, opts.Shard, r.found}).all(r.ahead.put)
	defer r.ahead.stop()

	finished := make(chan struct{})
	go func() {
		defer close(finished)
		pool.Run(&r.pool, opts.Workers, pool.Jobs[job]{Take: r.next, Block: r.block, Done: r.done})
	}()
	r.watch(ctx, finished)
	r.tally.Seconds = time.Since(r.began).Seconds()
	r.tally.Controls = r.controls.report()
	if void := r.controls.late(); len(void) > 0 && r.pool.Failed == nil {
		if out.pipe != nil {
			r.tally.Late += int64(len(void))
		} else if err := out.void(void, &r.tally); err != nil {
			return r.tally, &WriteError{err}
		}
	}
	return r.tally, r.pool.Failed
}

type run struct {
	Options
	began time.Time
	out   *Output
	ahead *ahead
	id    string

	pool pool.Pool // guards the fields below, and out

	tally    Tally
	header   string // until written
	seq      int64
	bytes    int64
	ended    bool            // end of input reached
	pending  map[string]*job // by identity, from first sight until its row is final
	controls *controls
	aside    []*job    // waiting for a retry
	held     int       // bytes of all rows in pending
	retryBy  time.Time // deadline for retries at the end; zero before the first
	silent   bool      // all waited at the last tick, and nothing happened since
}

type job struct {
	key     uint64
	id      string // see run.identity
	control bool   // measured for no row
	code    []byte
	setup   profiler.Setup
	try     int // number of attempts
	last    int // the latest worker
	rows    []waitingRow

	unprepared error           // why it was not measured
	result     profiler.Result // of the latest attempt
	cells      []string        // of the first row, once written
}

// waitingRow is a row whose block is not measured yet. seq counts this run's rows.
type waitingRow struct {
	seq int64
	row input.Row
}

// watch reports progress until the run is finished, and handles an interrupt.
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

func (r *run) next(worker int) (*job, bool, error) {
	j, err := r.controls.next(worker, false), error(nil)
	if j == nil {
		if j, err = r.find(worker); j == nil && err == nil {
			j = r.controls.next(worker, true)
		}
	}
	if j != nil {
		j.try++
		j.last = worker
	}
	return j, !r.ended || len(r.pending) > 0, err
}

func (r *run) block(j *job) profiler.Block {
	b := profiler.Block{Code: j.code, Setup: j.setup}
	if r.Prepare != nil && !j.control {
		j.unprepared = r.Prepare(&b)
	}
	return b
}

// done puts a noisy block aside, or writes its rows.
func (r *run) done(j *job, result profiler.Result, err error) error {
	if reading := (*input.ReadError)(nil); errors.As(j.unprepared, &reading) {
		err = j.unprepared
	}
	if err != nil {
		return err
	}
	if j.control {
		return r.checked(j.last, &result)
	}
	if j.unprepared != nil {
		result = profiler.Result{Hex: result.Hex, Bytes: result.Bytes, Status: profiler.Failed, Failure: j.unprepared.Error()}
	}
	if r.Finish != nil {
		r.Finish(&result)
	}
	r.silent = false
	r.tally.TimedSeconds += result.TimedSeconds
	if pool.Again(j.try, r.Retries, &result, r.ended) {
		j.result = result
		r.aside = append(r.aside, j)
		r.pool.Wake()
		return nil
	}
	if _, failed := errors.AsType[*WriteError](r.pool.Failed); failed {
		return nil
	}
	j.result = result
	held := r.controls.holds(j, &result)
	if err := r.write(j, result); err != nil || held {
		return err
	}
	r.release(j)
	return nil
}

// release forgets a job whose row is final.
func (r *run) release(j *job) {
	delete(r.pending, j.id)
	r.pool.Wake()
}

// checked takes the result of a control. The blocks of a stretch that was slowed are rejected on file, in case this
// process ends, and measured again.
func (r *run) checked(worker int, result *profiler.Result) error {
	jobs, slowed, closed := r.controls.measured(worker, result)
	if !closed {
		return nil
	}
	for _, j := range jobs {
		again := false
		if slowed != "" {
			if r.out.gone(j.rows[0].seq) {
				r.tally.Late += int64(len(j.rows))
			} else if err := r.write(j, slowedResult(j.result, slowed)); err != nil {
				return err
			} else if again = j.try <= r.Retries; again {
				r.aside = append(r.aside, j)
				r.controls.record.Again++
			}
		}
		if j.result = (profiler.Result{}); !again {
			r.release(j)
		}
	}
	r.pool.Wake()
	return nil
}

// find takes rows until one has a block to measure; if there is none, or retries are due, it returns a block put
// aside; nil if there is none now.
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
	if now := time.Now(); r.ended && r.retryBy.IsZero() {
		r.retryBy = now.Add(max(now.Sub(r.began), pool.LeastRetries))
	} else if r.ended && now.After(r.retryBy) {
		for _, j := range r.aside { // they keep the rejection that they have
			if j.cells == nil {
				if err := r.write(j, j.result); err != nil {
					return nil, err
				}
			}
			r.release(j)
		}
		r.aside = nil
		return nil, nil
	}
	return r.takeAside(worker), nil
}

// stuck reports whether too much waits to take more rows.
func (r *run) stuck() bool { return r.held >= maxHeld || r.out.stuck() }

// retryNow reports whether retries are due: at the end of the input; earlier only if too many blocks wait or nobody
// has other work.
func (r *run) retryNow() bool {
	return len(r.aside) > 0 && (r.ended || len(r.aside) >= maxAside || r.stuck() || r.silent)
}

// lookAhead is how many blocks are searched for one of another worker.
const lookAhead = 64

// takeAside returns the next block to retry, preferably one that another worker measured last. If all are its own,
// it takes one, but leaves a few to the others at the end: their cores may be busy for minutes, and it would wait
// as long. nil is none.
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
	return j
}

// take processes an input row; the returned job is to be measured now.
func (r *run) take(f inputRow) (*job, error) {
	if errors.Is(f.err, io.EOF) {
		r.ended = true
		r.pool.Wake()
		return nil, nil
	}
	if f.err != nil {
		return nil, f.err
	}
	w := waitingRow{r.seq, f.row}
	r.seq++
	r.bytes = f.row.End
	if f.row.Rejection != nil {
		e := resultfile.Entry{Row: f.row, Result: f.row.Rejected(), RunID: r.id, RunHeader: r.header}
		return nil, r.put(w.seq, r.out.schema.Cells(&e), nil)
	}
	id, visit := r.identity(&f.row)
	if j, ok := r.pending[id]; ok {
		j.rows = append(j.rows, w)
		if j.cells != nil {
			return nil, r.repeat(w, j.cells)
		}
		r.held += f.row.Size()
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
	j := &job{key: key, id: id, code: f.row.Code, setup: profiler.Setup{Address: f.row.At, Set: f.row.Set, Visit: visit}, rows: []waitingRow{w}}
	r.pending[j.id] = j
	r.held += f.row.Size()
	return j, nil
}

func (r *run) identity(row *input.Row) (id, visit string) {
	id = Identity(row.Code, row.At, r.Set.With(row.Set).String())
	if r.Visit != nil {
		visit = r.Visit(row)
		id += "\x00state " + visit
	}
	return id, visit
}

// found handles a row whose block an earlier run measured. The input row identifies it: the result does not
// distinguish its own settings from registers that bbprof moved.
func (r *run) found(row *input.Row, at int64) {
	if row.Rejection != nil {
		return
	}
	id, _ := r.identity(row)
	r.pool.Lock()
	defer r.pool.Unlock()
	r.out.offsets[hash([]byte(id))] = at
}

func (r *run) repeat(w waitingRow, measured []string) error {
	return r.put(w.seq, r.repeated(w, measured), nil)
}

func (r *run) repeated(w waitingRow, measured []string) []string {
	e := resultfile.Entry{Row: w.row, DuplicateOf: number(measured[r.out.at["row"]]), RunHeader: r.header}
	return r.out.schema.Repeat(measured, &e)
}

// write writes the rows of a job, or others in their place.
func (r *run) write(j *job, result profiler.Result) error {
	first, before := j.rows[0], j.cells
	e := resultfile.Entry{Row: first.row, Result: result, Tries: j.try, RunID: r.id, RunHeader: r.header}
	if j.cells = r.out.schema.Cells(&e); before == nil {
		r.tally.Measured++
		for _, w := range j.rows {
			r.held -= w.row.Size()
		}
	} else if at, ok := r.out.at["run_header"]; ok {
		j.cells[at] = before[at]
	}
	for i, w := range j.rows {
		cells, key := j.cells, &j.key
		if i > 0 {
			cells, key = r.repeated(w, j.cells), nil
		}
		if before != nil {
			old := before
			if i > 0 {
				old = r.repeated(w, before)
			}
			r.tally.remove(r.out.at, old)
		}
		if err := r.put(w.seq, cells, key); err != nil {
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
	r.tally.add(r.out.at, cells)
	return nil
}
