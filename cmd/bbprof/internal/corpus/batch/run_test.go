package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

func jitter(string, int) time.Duration { return time.Duration(rand.IntN(200)) * time.Microsecond }

// TestSameHash: of two blocks with one hash, both are measured.
func TestSameHash(t *testing.T) {
	out := require.Get(Create(file(t), resultfile.CSV, schema, false))(t)
	defer out.Close()
	key := uint64(7)
	cells := make([]string, len(schema))
	cells[out.at["hex"]] = "90"
	require.NoError(t, out.put(0, cells, &key))
	for hex, is := range map[string]bool{"90": true, "91": false} {
		if got, err := out.measured(7, hex); (got != nil) != is || err != nil {
			t.Errorf("%s: %q, %v", hex, got, err)
		}
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

// TestPipe: rows come out in order, whatever the order of completion, and repeated blocks are found even if no temporary
// file can be made.
func TestPipe(t *testing.T) {
	for _, noisy := range []int{0, 3} {
		if noisy == 0 && runtime.GOOS == "linux" { // only Linux has files in no folder
			t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
		}
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

// interrupted returns a context that ends before the block is measured. In a bubble of synctest the block waits until
// Run has noticed.
func (l *lab) interrupted(t *testing.T, before string) context.Context {
	ctx, stop := context.WithCancel(t.Context())
	l.delay = func(hex string, _ int) time.Duration {
		if hex == before {
			stop()
		}
		return time.Millisecond
	}
	return ctx
}

// TestPipeInterrupted: rows that wait for one that will not come are still written.
func TestPipeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{noisy: map[string]int{block(0): 1, block(2): 1}}
		var out strings.Builder
		o := require.Get(Pipe(&out, resultfile.CSV, schema, nil, false))(t)
		tally, err := Run(l.interrupted(t, block(40)), open(t, text(1000)), o, Options{Workers: l.workers(1), Run: here(), Retries: 1})
		if !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		require.NoError(t, end(o))
		got := parse(t, out.String())
		if int64(len(got)) != tally.Rows || tally.Rows < 30 || o.Held() != 0 {
			t.Errorf("%d rows of %d, and %d are held", len(got), tally.Rows, o.Held())
		}
		for i, row := range got {
			if i > 0 && number(row["row"]) <= number(got[i-1]["row"]) || row["hex"] == block(0) || row["hex"] == block(2) {
				t.Errorf("row %d is %v", i+1, row)
			}
		}
	})
}

// TestPipeWindow: if more rows than the window holds wait for a noisy block, it is retried and the run continues.
func TestPipeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// If the third row were not so slow, both workers might wait for late rows, which also causes a retry.
		l := &lab{noisy: map[string]int{block(0): 1}, delay: slow(block(2), time.Hour)}
		var out strings.Builder
		require.Get(piped(t, t.Context(), &out, resultfile.BHive, text(window+100), false, Options{Workers: l.workers(2), Retries: 1}))(t)
		at := slices.Index(l.order[100:], block(0)) + 100
		if at < 100 || at > slices.Index(l.order, block(2)) || !strings.HasPrefix(out.String(), block(0)+",500.00\n") {
			t.Errorf("of %d measurements the retry of the first block is number %d; it begins with %.40q", len(l.order), at, out.String())
		}
	})
}

// TestPipeIdle: a pipe with silent input retries without waiting for more, whether or not rows go out in order.
func TestPipeIdle(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &lab{noisy: map[string]int{"90": 1}}
			in, feed := io.Pipe()
			defer feed.Close()
			go io.WriteString(feed, "hex,id\n90,a\n")
			var out strings.Builder
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			o := require.Get(Pipe(&out, resultfile.BHive, schema, nil, unordered))(t)
			if _, err := Run(ctx, inputOf(t, in), o, Options{Workers: l.workers(2), Run: here(), Retries: 1}); !errors.Is(err, ErrInterrupted) {
				t.Error(err)
			}
			require.Equal(t, "rows before the end", "90,100.00\n", out.String())
			end(o)
		})
	}
}

// TestUnordered: a pipe gets rows as they finish.
func TestUnordered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{delay: slow(block(0), time.Second)}
		var out strings.Builder
		corpus := "hex,id\n" + block(0) + ",0\n" + block(2) + ",1\n"
		require.Get(piped(t, t.Context(), &out, resultfile.CSV, corpus, true, Options{Workers: l.workers(2)}))(t)
		if got := parse(t, out.String()); len(got) != 2 || got[1]["hex"] != block(0) {
			t.Errorf("%v", got)
		}
	})
}

// TestRetry: a noisy block is retried last, by another worker, and the row counts the tries.
func TestRetry(t *testing.T) {
	l := &lab{noisy: map[string]int{block(3): 1, block(5): 2, block(7): 9}}
	by := map[string][]int{} // workers that measured each block
	l.delay = func(hex string, worker int) time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		by[hex] = append(by[hex], worker)
		return jitter(hex, worker)
	}
	path, corpus := file(t), text(300)
	tally := require.Get(batched(t, l, path, corpus, Options{Retries: 2}))(t)
	want := map[string][2]string{block(3): {"2", "ok"}, block(5): {"3", "ok"}, block(7): {"3", "rejected"}}
	got := rows(t, path)
	for _, row := range got {
		w, ok := want[row["hex"]]
		if !ok {
			w = [2]string{"1", row["status"]}
		}
		if row["reason"] != "bad_hex" && (row["tries"] != w[0] || row["status"] != w[1]) {
			t.Errorf("%s: %s after %s tries, want %q", row["hex"], row["status"], row["tries"], w)
		}
	}
	for hex := range want {
		if len(slices.Compact(slices.Clone(by[hex]))) < len(by[hex]) {
			t.Errorf("%s was measured by %v", hex, by[hex])
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
	if tally.Retried != 3 || tally.Recovered != 2 || tally.Reasons["unstable"] != 1 || tally.Rows != 300 || tally.OK+tally.Rejected != 300 ||
		tally.Measured+5 != int64(len(l.order)) || tally.Duplicates == 0 || tally.Reasons["bad_hex"] != tally.Rejected-1 {
		t.Errorf("%+v", tally)
	}
	if n := strings.Count(readFile(t, path), `""version""`); n != 1 || got[0]["run_header"] == "" {
		t.Errorf("%d run headers, and the first row has %q", n, got[0]["run_header"])
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

// noisyCorpus returns n blocks that are rejected for noise a number of times each.
func noisyCorpus(n, times int) (string, map[string]int) {
	corpus, noisy := "hex,id\n", map[string]int{}
	for i := range n {
		corpus += fmt.Sprintf("%s,%d\n", block(i), i)
		noisy[block(i)] = times
	}
	return corpus, noisy
}

// TestRetriesEnd: on a core that is never idle, retries end when they took as long as everything before, and waiting
// blocks keep their results. A worker whose core is busy for long is left few of the blocks that another put aside.
func TestRetriesEnd(t *testing.T) {
	const blocks = 40
	for _, c := range []struct {
		noise, retries, workers int
		delay                   func(hex string, worker int) time.Duration
		rejected, most          int // measurements
		within                  time.Duration
	}{
		{1 << 20, 1000, 1, func(string, int) time.Duration { return time.Second }, blocks, 2*blocks + 5, (2*blocks + 5) * time.Second},
		{1, 1, 2, func(_ string, worker int) time.Duration { return time.Duration(worker) * time.Second }, 0, 2 * blocks, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			corpus, noisy := noisyCorpus(blocks, c.noise)
			l := &lab{noisy: noisy, delay: c.delay}
			began := time.Now()
			tally := require.Get(batched(t, l, file(t), corpus, Options{Retries: c.retries, Workers: l.workers(c.workers)}))(t)
			took := time.Since(began)
			if tally.Measured != blocks || tally.Reasons["unstable"] != int64(c.rejected) || len(l.order) > c.most || took > c.within {
				t.Errorf("%d workers: %d measurements in %v, %+v", c.workers, len(l.order), took, tally)
			}
		})
	}
}

// TestEndedEarly: when a worker fails or a signal comes, blocks in flight are finished and written, no others start, and
// the next run measures the rest.
func TestEndedEarly(t *testing.T) {
	for _, why := range []error{ErrInterrupted, errBroken} {
		synctest.Test(t, func(t *testing.T) {
			l := &lab{noisy: map[string]int{block(2): 1}}
			ctx := t.Context()
			if l.delay = jitter; why == ErrInterrupted {
				ctx = l.interrupted(t, block(102))
			} else {
				l.fail = block(102)
			}
			path, corpus := file(t), text(1000)
			out := require.Get(Create(path, resultfile.CSV, schema, false))(t)
			tally, err := Run(ctx, open(t, corpus), out, Options{Workers: l.workers(2), Run: here(), Retries: 1})
			if !errors.Is(err, why) {
				t.Fatal(err)
			}
			end(out)
			measured := len(l.order)
			if n := len(rows(t, path)); int64(n) != tally.Rows || tally.Measured != int64(measured)-1 || measured > 100+2 { // those in flight
				t.Errorf("%d rows, %d measurements, %+v", n, measured, tally)
			}
			l.delay, l.fail = nil, ""
			require.Get(batched(t, l, path, corpus, Options{}))(t)
			holds(t, rows(t, path), corpus)
			if i := slices.Index(l.order, block(2)); i >= 0 { // the noisy one
				l.order = slices.Delete(l.order, i, i+1)
			}
			l.onlyOnce(t)
		})
	}
}

// TestWriteFails: the run stops at once and reports it, and nothing follows a row that may be partly written.
func TestWriteFails(t *testing.T) {
	for _, room := range []int{0, 3000} {
		disk := &fullDisk{room: room}
		o, err := Pipe(disk, resultfile.CSV, schema, nil, false)
		if err == nil {
			l := &lab{}
			_, err = Run(t.Context(), open(t, text(1000)), o, Options{Workers: l.workers(2), Run: here()})
			written := disk.text.Len()
			disk.room = 1 << 20
			if end(o); len(l.order) > 500 || disk.text.Len() != written {
				t.Errorf("%d measurements, and %d bytes after the failure", len(l.order), disk.text.Len()-written)
			}
		}
		var writing *WriteError
		if !errors.As(err, &writing) || !errors.Is(err, errFull) {
			t.Errorf("room %d: %v", room, err)
		}
	}
}

type fullDisk struct {
	room int
	text strings.Builder
}

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, errFull
	}
	d.room -= len(p)
	return d.text.Write(p)
}

// TestPrepare: a block that cannot be prepared fails alone, and what cannot be read ends the run.
func TestPrepare(t *testing.T) {
	for _, failure := range []error{errBroken, &input.ReadError{Err: errBroken}} {
		prepare := func(b *profiler.Block) error {
			if fmt.Sprintf("%x", b.Code) == block(2) {
				return failure
			}
			return nil
		}
		tally, err := batched(t, new(lab), file(t), text(10), Options{Prepare: prepare})
		if failure == errBroken && (err != nil || tally.Failed == 0) || failure != errBroken && !errors.Is(err, errBroken) {
			t.Errorf("%T: %d failed, error %v", failure, tally.Failed, err)
		}
	}
}

// TestArrayShard: a task takes the part with its number if the array has all numbers from 0.
func TestArrayShard(t *testing.T) {
	for _, c := range []struct {
		env   string // ID MIN MAX COUNT
		want  Shard
		wrong string
	}{
		{"0 0 7 8", Shard{0, 8}, ""},
		{"7 0 7 8", Shard{7, 8}, ""},
		{"0 0 0 1", Shard{0, 1}, ""},
		{"3 3 3 1", Shard{}, "write $SLURM_ARRAY_TASK_ID/N"},
		{"1 1 8 8", Shard{}, "all numbers from 0"},
		{"0 0 7 2", Shard{}, "all numbers from 0"},
		{"", Shard{}, "not a task of a Slurm job array"},
		{"-1 0 7 8", Shard{}, "not a task of a Slurm job array"},
	} {
		env := map[string]string{}
		for i, v := range strings.Fields(c.env) {
			env[[]string{taskID, taskMin, taskMax, taskCount}[i]] = v
		}
		got, err := ArrayShard(func(name string) string { return env[name] })
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q is %v, error %v; want %v, %q", c.env, got, err, c.want, c.wrong)
		}
	}
}

func TestArrayWorkers(t *testing.T) {
	for value, want := range map[string]int{"8": 8, "": 0, "x": 0, "-2": 0} {
		require.Equal(t, value, want, ArrayWorkers(func(string) string { return value }))
	}
}

func TestIdentity(t *testing.T) {
	relative, plain := []byte{0x48, 0x8b, 0x05, 1, 0, 0, 0}, []byte{0x48, 0x01, 0xc0}
	at := func(address uint64) *uint64 { return &address }
	for i, tt := range []struct {
		code []byte
		a, b *uint64
		same bool
	}{
		{relative, at(0x1010), at(0x2010), true},
		{relative, at(0x1010), at(0x1020), false},
		{relative, nil, at(0x1020), false},
		{relative, nil, at(0x3000), false}, // its operands are aligned, not left in place
		{relative, at(0), at(0x3000), true},
		{plain, at(0x1010), at(0x1020), true},
		{plain, nil, at(0x1020), true},
	} {
		require.Equal(t, fmt.Sprintf("case %d, %x: the same", i, tt.code), tt.same, Identity(tt.code, tt.a, "") == Identity(tt.code, tt.b, ""))
	}
	for _, other := range []string{"", "rdi=0x1"} {
		if Identity(plain, nil, "rdi=0x2") == Identity(plain, nil, other) {
			t.Errorf("a block with rdi=0x2 is the same as with %q", other)
		}
	}
}
