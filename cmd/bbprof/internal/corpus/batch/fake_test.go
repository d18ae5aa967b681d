package batch

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// lab holds fake measurers and records what they were given.
type lab struct {
	mu    sync.Mutex
	order []string // blocks in hex, in the order of measurement

	noisy map[string]int                             // how often a block is rejected for noise
	delay func(hex string, worker int) time.Duration // may be nil
	fail  string                                     // the block at which a worker breaks
	slows func(worker, bytes int) float64            // the factor by which other work slows a block; may be nil
	level func(worker int) float64                   // what the worker takes for idle; may be nil
}

var errBroken = errors.New("broken")

// slow delays one block.
func slow(block string, by time.Duration) func(string, int) time.Duration {
	return func(hex string, _ int) time.Duration {
		if hex == block {
			return by
		}
		return time.Millisecond
	}
}

type worker struct {
	*lab
	number int
}

func (w worker) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	hex := fmt.Sprintf("%x", b.Code)
	if w.delay != nil {
		time.Sleep(w.delay(hex, w.number))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if hex == w.fail {
		return profiler.Result{}, errBroken
	}
	w.order = append(w.order, hex)
	r := profiler.Result{Hex: hex, Bytes: len(b.Code), Instructions: 1, Ran: profiler.Ran{UnrollShort: 1, UnrollLong: 3}}
	if w.noisy[hex] > 0 {
		w.noisy[hex]--
		r.Status, r.Reason = profiler.Rejected, verdict.Unstable
		r.Rejection = &verdict.Rejection{Reason: verdict.Unstable, Detail: "noise"}
		return r, nil
	}
	cycles := float64(len(b.Code))
	if w.slows != nil {
		cycles *= w.slows(w.number, len(b.Code))
	}
	if w.level != nil {
		r.Clock = &profiler.ClockReport{ProbeIdle: w.level(w.number)}
	}
	r.Status, r.Cycles, r.CILow, r.CIHigh = profiler.OK, cycles, cycles-.01, cycles+.01
	return r, nil
}

func (w worker) ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	for b, ok := next(); ok; b, ok = next() {
		done(w.Profile(ctx, b))
	}
	return nil
}

// workers returns n measurers of the lab.
func (l *lab) workers(n int) (all []pool.Measurer) {
	for i := range n {
		all = append(all, worker{l, i})
	}
	return all
}

// text returns a corpus of n rows with a second column. The block of each eleventh row reappears right after it
// and much later, and each thirteenth row is not a block.
func text(n int) string {
	var b strings.Builder
	b.WriteString("hex,id\n")
	for i := range n {
		switch {
		case i%13 == 12:
			fmt.Fprintf(&b, "zz%d,%d\n", i, i)
		case i%11 == 1 || i%11 == 6 && i > n/2:
			fmt.Fprintf(&b, "%s,%d\n", block(i-i%11), i)
		default:
			fmt.Fprintf(&b, "%s,%d\n", block(i), i)
		}
	}
	return b.String()
}

func block(i int) string { return fmt.Sprintf("48%08x", i) }

func open(t testing.TB, text string) *input.Input { return inputOf(t, strings.NewReader(text)) }

func inputOf(t testing.TB, r io.Reader) *input.Input {
	t.Helper()
	return require.Get(input.Open([]string{"-"}, r, "", resultfile.Reserved()))(t)
}

// stream is a corpus whose rows, from 0, are made as they are read, until one is empty.
func stream(t testing.TB, row func(i int) string) *input.Input {
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	go func() {
		_, err := io.WriteString(w, "hex,id\n")
		for i := 0; err == nil; i++ {
			text := row(i)
			if text == "" {
				break
			}
			_, err = io.WriteString(w, text)
		}
		w.Close()
	}()
	return inputOf(t, r)
}

var schema = resultfile.NewSchema(false, []string{"id"})

func here() resultfile.Run {
	return resultfile.Run{Version: "1", Host: resultfile.Host{Microarchitecture: "Zen 9", Brand: "x"}, Settings: map[string]any{"mode": "unroll"}}
}

// elsewhere is here with a change.
func elsewhere(change func(*resultfile.Run)) resultfile.Run {
	r := here()
	change(&r)
	return r
}

// batched measures a corpus into a file, from its start or where it stopped.
func batched(t testing.TB, l *lab, path, text string, o Options) (Tally, error) {
	t.Helper()
	if o.Workers == nil {
		o.Workers = l.workers(3)
	}
	if o.Run.Version == "" {
		o.Run = here()
		o.Run.Shard = o.Shard.String()
	}
	out, _, err := Resume(path, resultfile.CSV, schema, o.Run)
	if err != nil {
		return Tally{}, err
	}
	defer out.Close()
	tally, err := Run(t.Context(), open(t, text), out, o)
	require.NoError(t, out.Flush())
	if err == nil {
		err = out.Sort()
	}
	return tally, err
}

// end flushes and closes an output.
func end(o *Output) error { return errors.Join(o.Flush(), o.Close()) }

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "result.csv") }

func readFile(t testing.TB, path string) string {
	t.Helper()
	return string(require.Get(os.ReadFile(path))(t))
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
}

func rows(t testing.TB, path string) []map[string]string {
	t.Helper()
	return parse(t, readFile(t, path))
}

// parse reads a result with an independent reader.
func parse(t testing.TB, content string) (rows []map[string]string) {
	t.Helper()
	all := require.Get(csv.NewReader(strings.NewReader(content)).ReadAll())(t)
	for i := 1; i < len(all); i++ {
		row := map[string]string{}
		for k, name := range all[0] {
			row[name] = all[i][k]
		}
		rows = append(rows, row)
	}
	return rows
}

// wholeRows returns the blocks of the rows that a result which may be torn has in full.
func wholeRows(t testing.TB, content string) map[string]bool {
	t.Helper()
	whole := map[string]bool{}
	for _, row := range parse(t, content[:strings.LastIndexByte(content, '\n')+1]) {
		whole[row["hex"]] = true
	}
	return whole
}

// withCell returns a result with one cell changed; rows count from 1.
func withCell(t testing.TB, content string, row int, column, cell string) string {
	t.Helper()
	all := require.Get(csv.NewReader(strings.NewReader(content)).ReadAll())(t)
	all[row][slices.Index(all[0], column)] = cell
	var b strings.Builder
	csv.NewWriter(&b).WriteAll(all)
	return b.String()
}

// holds checks that a result has every row of a corpus once, in order, with its own id and its block's result.
func holds(t testing.TB, got []map[string]string, text string) {
	t.Helper()
	in := open(t, text)
	for i, g := range got {
		row := require.Get(in.Next())(t)
		status := "ok"
		if row.Rejection != nil {
			status = "rejected"
		}
		if g["row"] != strconv.Itoa(i+1) || g["hex"] != row.Hex() || g["id"] != row.Carried[0] ||
			g["line"] != strconv.Itoa(row.Line) || g["status"] != status || g["run"] != here().ID() {
			t.Fatalf("row %d is %v, want that of line %d, %s", i+1, g, row.Line, row.Hex())
		}
	}
	if row, err := in.Next(); err != io.EOF {
		t.Fatalf("there is no row of line %d, %v", row.Line, err)
	}
}

// onlyOnce checks that no block was measured twice.
func (l *lab) onlyOnce(t testing.TB) {
	t.Helper()
	once := slices.Compact(slices.Sorted(slices.Values(l.order)))
	if len(once) != len(l.order) {
		t.Errorf("%d measurements of %d blocks", len(l.order), len(once))
	}
}
