package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

func jitter(string, int) time.Duration { return time.Duration(rand.IntN(200)) * time.Microsecond }

// TestFile: several workers, duplicates and invalid rows yield a file with every row once, in order.
func TestFile(t *testing.T) {
	l := &lab{delay: jitter}
	path, corpus := file(t), text(1000)
	tally := require.Get(batched(t, l, path, corpus, Options{}))(t)
	got := rows(t, path)
	holds(t, got, corpus)
	l.onlyOnce(t)
	for i, row := range got {
		if (row["run_header"] != "") != (i == 0) {
			t.Errorf("row %d has header %q", i+1, row["run_header"])
		}
	}
	if n := strings.Count(readFile(t, path), `""version""`); n != 1 {
		t.Errorf("%d run headers", n)
	}
	if tally.Rows != 1000 || tally.OK+tally.Rejected != 1000 || tally.Measured != int64(len(l.order)) ||
		tally.Duplicates == 0 || tally.Reasons["bad_hex"] != tally.Rejected {
		t.Errorf("%+v", tally)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	content := require.Get(os.ReadFile(path))(t)
	return string(content)
}

// TestSameHash: of two blocks with one hash, both are measured.
func TestSameHash(t *testing.T) {
	out := require.Get(Create(file(t), resultfile.CSV, schema, false))(t)
	defer out.Close()
	key := uint64(7)
	cells := make([]string, len(schema))
	cells[out.hex] = "90"
	require.NoError(t, out.put(0, cells, &key))
	if got, err := out.measured(7, "91"); got != nil || err != nil {
		t.Errorf("of another block: %q, %v", got, err)
	}
	if got, err := out.measured(7, "90"); got == nil || err != nil {
		t.Errorf("of the block: %q, %v", got, err)
	}
}

// piped measures a corpus into a pipe.
func piped(t *testing.T, ctx context.Context, out io.Writer, f resultfile.Format, corpus string, unordered bool, o Options) (Tally, error) {
	t.Helper()
	pipe, err := Pipe(out, f, schema, nil, unordered)
	if err != nil {
		return Tally{}, err
	}
	o.Run = here()
	tally, err := Run(ctx, open(t, corpus), pipe, o)
	return tally, errors.Join(err, end(pipe))
}

// TestPipe: rows come out in order, whatever the order of completion, and each as soon as its predecessors are
// done.
func TestPipe(t *testing.T) {
	for _, noisy := range []int{0, 1, 3} {
		l := &lab{delay: jitter, noisy: map[string]int{block(0): noisy, block(500): noisy}}
		var out strings.Builder
		corpus := text(1000)
		require.Get(piped(t, t.Context(), &out, resultfile.CSV, corpus, false, Options{Workers: l.workers(3), Retries: 3}))(t)
		holds(t, parse(t, out.String()), corpus)
		if noisy == 0 {
			l.onlyOnce(t)
		}
	}
}

// TestPipeWithoutTemporaryFolder: repeated blocks are found even if no temporary file can be made.
func TestPipeWithoutTemporaryFolder(t *testing.T) {
	if runtime.GOOS != "linux" {
		require.Skip(t, require.Kernel, "only Linux has files in no folder")
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	l := &lab{delay: jitter}
	var out strings.Builder
	corpus := text(1000)
	require.Get(piped(t, t.Context(), &out, resultfile.CSV, corpus, false, Options{Workers: l.workers(3)}))(t)
	holds(t, parse(t, out.String()), corpus)
	l.onlyOnce(t)
}

// interruption is a context that ends on request; the request returns once Run has noticed, however long its
// goroutine waits for a CPU.
type interruption struct {
	context.Context
	done   chan struct{}
	looked chan struct{}
}

func newInterruption(t *testing.T) interruption {
	return interruption{t.Context(), make(chan struct{}), make(chan struct{})}
}

func (i interruption) Done() <-chan struct{} { return i.done }

// progress must be called by Run, on the goroutine that notices the interrupt.
func (i interruption) progress(Progress) {
	select {
	case i.looked <- struct{}{}:
	default:
	}
}

// now must be called once.
func (i interruption) now() {
	i.done <- struct{}{} // noticed,
	<-i.looked           // and handled
}

// TestPipeInterrupted: rows that wait for one that will not come are still written.
func TestPipeInterrupted(t *testing.T) {
	interrupt := newInterruption(t)
	l := &lab{noisy: map[string]int{block(0): 1, block(2): 1}, fail: func(hex string) error {
		if hex == block(40) {
			interrupt.now()
		}
		return nil
	}}
	var out strings.Builder
	o := require.Get(Pipe(&out, resultfile.CSV, schema, nil, false))(t)
	tally, err := Run(interrupt, open(t, text(1000)), o, Options{Workers: l.workers(1), Run: here(), Retries: 1, Progress: interrupt.progress})
	if !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	require.NoError(t, end(o))
	got := parse(t, out.String())
	if int64(len(got)) != tally.Rows || tally.Rows < 30 || o.Held() != 0 {
		t.Errorf("%d rows of %d, and %d are held", len(got), tally.Rows, o.Held())
	}
	last := int64(0)
	for _, row := range got {
		n := number(row["row"])
		// If the input was late, there was time for a retry.
		aside := (row["hex"] == block(0) || row["hex"] == block(2)) && len(l.by[row["hex"]]) < 2
		if n <= last || aside {
			t.Errorf("row %d after %d: %v", n, last, row)
		}
		last = n
	}
}

// TestPipeBroken: after a partly written row no other follows.
func TestPipeBroken(t *testing.T) {
	full := errors.New("no space left")
	disk := &fullDisk{room: 2000, err: full}
	p := require.Get(newPipe(disk, resultfile.CSV, schema, nil, false))(t)
	header := disk.text.Len()
	disk.room = 0
	row := make([]string, len(schema))
	if err := p.put(1, row); err != nil { // it waits
		t.Fatal(err)
	}
	if err := p.put(0, row); !errors.Is(err, full) {
		t.Fatal(err)
	}
	disk.room = 2000
	p.close()
	if disk.text.Len() != header || len(p.waiting) != 1 {
		t.Errorf("%q is written", disk.text.String()[header:])
	}
}

// TestPipeWindow: if more rows than the window holds wait for a noisy block, it is retried and the run continues.
func TestPipeWindow(t *testing.T) {
	l := &lab{noisy: map[string]int{block(0): 1}}
	// One worker stays busy until then; otherwise both might wait for late rows, which also causes a retry.
	again := make(chan struct{})
	l.delay = func(hex string, _ int) time.Duration {
		if hex == block(2) {
			select {
			case <-again:
			case <-time.After(time.Minute): // the test fails
			}
		}
		return 0
	}
	l.fail = func(hex string) error {
		if hex == block(0) && len(l.by[hex]) == 1 {
			close(again)
		}
		return nil
	}
	var out strings.Builder
	require.Get(piped(t, t.Context(), &out, resultfile.BHive, text(window+100), false, Options{Workers: l.workers(2), Retries: 1}))(t)
	at := 0
	for i, hex := range l.order {
		if hex == block(0) {
			at = i
		}
	}
	if at < 100 || at > len(l.order)-50 {
		t.Errorf("of %d measurements the retry of the first block is number %d", len(l.order), at)
	}
	if !strings.HasPrefix(out.String(), block(0)+",500.00\n") {
		t.Errorf("it begins with %.40q", out.String())
	}
}

// TestPipeIdle: a pipe with silent input retries without waiting for more, whether or not rows go out in order.
func TestPipeIdle(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("unordered %v", unordered), func(t *testing.T) { retriesWhenIdle(t, unordered) })
	}
}

func retriesWhenIdle(t *testing.T, unordered bool) {
	l := &lab{noisy: map[string]int{"90": 1}}
	in, feed := io.Pipe()
	seen, out := io.Pipe()
	o := require.Get(Pipe(out, resultfile.BHive, schema, nil, unordered))(t)
	go io.WriteString(feed, "hex,id\n90,a\n")
	ended := make(chan error)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // the test fails by then
	defer stop()
	go func() {
		_, err := Run(ctx, inputOf(t, in), o, Options{Workers: l.workers(2), Run: here(), Retries: 1})
		out.Close() // no further row comes
		ended <- err
	}()
	line := make([]byte, len("90,100.00\n"))
	if _, err := io.ReadFull(seen, line); err != nil || string(line) != "90,100.00\n" {
		t.Errorf("%q, %v", line, err)
	}
	stop()
	if err := <-ended; !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	feed.Close()
	end(o)
}

// TestUnordered: a file stays as written, and a pipe gets rows as they finish.
func TestUnordered(t *testing.T) {
	out := firstRow{after: block(2), there: make(chan struct{})}
	slow := func(hex string, _ int) time.Duration {
		if hex == block(0) {
			select {
			case <-out.there:
			case <-time.After(30 * time.Second): // the test fails
			}
		}
		return 0
	}
	l := &lab{delay: slow}
	text0 := "hex,id\n" + block(0) + ",0\n" + block(2) + ",1\n"
	require.Get(piped(t, t.Context(), &out, resultfile.CSV, text0, true, Options{Workers: l.workers(2)}))(t)
	if got := parse(t, out.String()); len(got) != 2 || got[1]["hex"] != block(0) {
		t.Errorf("%v", got)
	}
}

// firstRow signals when a block's row is written.
type firstRow struct {
	strings.Builder
	after string
	there chan struct{}
}

func (w *firstRow) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.after) {
		close(w.there)
	}
	return w.Builder.Write(p)
}

// TestRetry: a noisy block is retried last, by another worker, and the row counts the tries.
func TestRetry(t *testing.T) {
	l := &lab{noisy: map[string]int{block(3): 1, block(5): 2, block(7): 9}, delay: jitter}
	path, corpus := file(t), text(300)
	tally := require.Get(batched(t, l, path, corpus, Options{Retries: 2}))(t)
	want := map[string][2]string{block(3): {"2", "ok"}, block(5): {"3", "ok"}, block(7): {"3", "rejected"}}
	for _, row := range rows(t, path) {
		w, ok := want[row["hex"]]
		if !ok {
			w = [2]string{"1", row["status"]}
		}
		if row["reason"] != "bad_hex" && (row["tries"] != w[0] || row["status"] != w[1]) {
			t.Errorf("%s: %s after %s tries, want %q", row["hex"], row["status"], row["tries"], w)
		}
	}
	for hex := range want {
		for i := 1; i < len(l.by[hex]); i++ {
			if l.by[hex][i] == l.by[hex][i-1] {
				t.Errorf("%s was measured by %v", hex, l.by[hex])
			}
		}
	}
	const inFlight = 3
	seen := map[string]bool{}
	for i, hex := range l.order {
		if seen[hex] && i < len(l.order)-5-inFlight { // there are five retries
			t.Errorf("the retry of %s is measurement %d of %d", hex, i, len(l.order))
		}
		seen[hex] = true
	}
	if tally.Retried != 3 || tally.Recovered != 2 || tally.Reasons["unstable"] != 1 {
		t.Errorf("%+v", tally)
	}
	// None is requested, or with one worker there is no other.
	for _, retries := range []int{0, 1} {
		l := &lab{noisy: map[string]int{"90": 1}}
		tally, err := batched(t, l, file(t), "hex,id\n90,a\n90,b\n", Options{Retries: retries, Workers: l.workers(1)})
		if err != nil || tally.OK != int64(2*retries) || len(l.order) != 1+retries {
			t.Errorf("%d retries: %+v, %v", retries, tally, err)
		}
	}
}

// TestRetriesEnd: on a core that is never idle, retries end when they took as long as everything before, and
// waiting blocks keep their results.
func TestRetriesEnd(t *testing.T) {
	const blocks = 40
	l := &lab{noisy: map[string]int{}}
	var corpus strings.Builder
	corpus.WriteString("hex,id\n")
	for i := range blocks {
		fmt.Fprintf(&corpus, "%s,%d\n", block(i), i)
		l.noisy[block(i)] = 1 << 20
	}
	synctest.Test(t, func(t *testing.T) {
		l.delay = func(string, int) time.Duration { return time.Second }
		began := time.Now()
		tally, err := batched(t, l, file(t), corpus.String(), Options{Retries: 1000, Workers: l.workers(1)})
		if err != nil || tally.Measured != blocks || tally.Reasons["unstable"] != blocks {
			t.Errorf("%+v, %v", tally, err)
		}
		if took := time.Since(began); took > 2*blocks*time.Second+5*time.Second {
			t.Errorf("%v, of which the first measurements took %v", took, blocks*time.Second)
		}
	})
}

// TestRetryBesideBusyWorker: a worker whose core is busy for long is left only few of the blocks that another put
// aside.
func TestRetryBesideBusyWorker(t *testing.T) {
	const blocks = 40
	var corpus strings.Builder
	corpus.WriteString("hex,id\n")
	l := &lab{noisy: map[string]int{}}
	for i := range blocks {
		fmt.Fprintf(&corpus, "%s,%d\n", block(i), i)
		l.noisy[block(i)] = 1
	}
	free := make(chan struct{}) // when nearly all are done
	freed := sync.OnceFunc(func() { close(free) })
	l.delay = func(string, int) time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.order) == 2*blocks-5 { // one in flight with each, two left
			freed() // the other may find as many measured
		}
		return 0
	}
	workers := l.workers(2)
	workers[1] = busy{workers[1].(worker), free}
	require.Get(batched(t, l, file(t), corpus.String(), Options{Retries: 1, Workers: workers}))(t)
	if len(l.order) != 2*blocks {
		t.Errorf("%d measurements, want %d", len(l.order), 2*blocks)
	}
}

// busy is a worker that blocks until it is free.
type busy struct {
	worker
	free chan struct{}
}

func (w busy) ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	return w.worker.ProfileAll(ctx, func() (profiler.Block, bool) {
		b, ok := next()
		select {
		case <-w.free:
		case <-time.After(20 * time.Second):
			panic("the other worker waits for this one")
		}
		return b, ok
	}, done)
}

// TestInterrupt: blocks in flight are finished and written, no others start, and the next run measures the rest.
func TestInterrupt(t *testing.T) {
	l := &lab{noisy: map[string]int{block(2): 1}}
	interrupt := newInterruption(t)
	l.fail = func(string) error {
		if len(l.order) == 100 {
			interrupt.now()
		}
		return nil
	}
	path, corpus := file(t), text(1000)
	out := require.Get(Create(path, resultfile.CSV, schema, false))(t)
	tally, err := Run(interrupt, open(t, corpus), out, Options{Workers: l.workers(2), Run: here(), Retries: 1, Progress: interrupt.progress})
	if !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	end(out)
	measured := len(l.order)
	if measured > 100+2 { // those in flight
		t.Errorf("%d measurements", measured)
	}
	if n := len(rows(t, path)); int64(n) != tally.Rows || tally.Measured != int64(measured)-1 {
		t.Errorf("%d rows, %+v", n, tally)
	}
	l.fail = nil
	tally, err = batched(t, l, path, corpus, Options{})
	if err != nil || tally.Rows != 1000 {
		t.Fatal(tally, err)
	}
	holds(t, rows(t, path), corpus)
	if i := slices.Index(l.order, block(2)); i >= 0 { // the noisy one
		l.order = slices.Delete(l.order, i, i+1)
	}
	l.onlyOnce(t)
}

// TestMeasurerFails: a failing worker ends the run, and blocks in flight elsewhere are written.
func TestMeasurerFails(t *testing.T) {
	broken := errors.New("broken")
	l := &lab{}
	l.fail = func(hex string) error {
		if hex == block(200) {
			return broken
		}
		return nil
	}
	path, corpus := file(t), text(1000)
	tally, err := batched(t, l, path, corpus, Options{})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if n := int64(len(rows(t, path))); n != tally.Rows || tally.Measured != int64(len(l.order)) {
		t.Errorf("%d rows, %d measurements, %+v", n, len(l.order), tally)
	}
	l.fail = nil
	require.Get(batched(t, l, path, corpus, Options{}))(t)
	holds(t, rows(t, path), corpus)
	l.onlyOnce(t)
}

// TestWriteFails: the run stops at once and reports it.
func TestWriteFails(t *testing.T) {
	full := errors.New("no space left")
	for _, room := range []int{0, 3000} {
		o, err := Pipe(&fullDisk{room: room, err: full}, resultfile.CSV, schema, nil, false)
		if err == nil {
			l := &lab{}
			_, err = Run(t.Context(), open(t, text(1000)), o, Options{Workers: l.workers(2), Run: here()})
			if len(l.order) > 500 {
				t.Errorf("%d measurements", len(l.order))
			}
			end(o)
		}
		var writing *WriteError
		if !errors.As(err, &writing) || !errors.Is(err, full) {
			t.Errorf("room %d: %v", room, err)
		}
	}
}

type fullDisk struct {
	room int
	err  error
	text strings.Builder
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, d.err
	}
	d.room -= len(p)
	return d.text.Write(p)
}

func TestCreate(t *testing.T) {
	path := file(t)
	os.WriteFile(path, []byte("precious"), 0o666)
	if _, err := Create(path, resultfile.CSV, schema, false); err == nil || !strings.Contains(err.Error(), "-resume continues it, -overwrite replaces it") {
		t.Error(err)
	}
	if readFile(t, path) != "precious" {
		t.Error("it is gone")
	}
	o := require.Get(Create(path, resultfile.CSV, schema, true))(t)
	end(o)
	if readFile(t, path) != strings.Join(schema.Names(), ",")+"\n" {
		t.Error("it was not replaced")
	}
}

// TestQuantiles: quantiles are within a bucket of the true ones.
func TestQuantiles(t *testing.T) {
	var s Spread
	for i := range 1000 {
		s.add(float64(i+1) / 100)
	}
	for q, want := range map[float64]float64{0: 0.01, 0.5: 5, 0.95: 9.5, 1: 10} {
		if got := s.Quantile(q); got < want/1.02 || got > want*1.02 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if text, err := s.MarshalJSON(); err != nil || !strings.Contains(string(text), `"p50":4.99`) || !strings.Contains(string(text), `"count":1000`) {
		t.Errorf("%s, %v", text, err)
	}
	var none Spread
	if text, err := none.MarshalJSON(); err != nil || string(text) != `{"count":0}` {
		t.Errorf("%s, %v", text, err)
	}
}

// TestPrepare: a block that cannot be prepared fails alone, and what cannot be read ends the run.
func TestPrepare(t *testing.T) {
	broken := errors.New("broken")
	for _, failure := range []error{broken, &input.ReadError{Err: broken}} {
		prepare := func(b *profiler.Block) error {
			if fmt.Sprintf("%x", b.Code) == block(2) {
				return failure
			}
			return nil
		}
		path := file(t)
		tally, err := batched(t, new(lab), path, text(10), Options{Prepare: prepare})
		if failure == broken && (err != nil || tally.Failed == 0) || failure != broken && !errors.Is(err, broken) {
			t.Errorf("%T: %d failed, error %v", failure, tally.Failed, err)
		}
	}
}
