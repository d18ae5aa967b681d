package main

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"io"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/bounds"
	"github.com/bbprof/bbprof/profiler"
)

// corpus writes a row for each distinct block of the files, in their order.
func (b *bounding) corpus(std streams) error {
	ctx, stop := untilSignal()
	defer stop()
	blocks, err := distinctBlocks(b.files, std.in, "")
	if err != nil {
		return &usageError{err}
	}
	workers, err := someWorkers(b.opts, b.workers)
	if err != nil {
		return err
	}
	defer workers.close()
	meter := progress(b.out.notes(std), len(blocks), "blocks")
	defer meter.end()
	return b.out.stream(std, func(w io.Writer) error {
		out := newBoundsWriter(w, b.out.json)
		err := inOrder(ctx, workers, blocks, b.ask, func(a bounds.Answer) error {
			err := out.write(a)
			meter.step(out.rows)
			return err
		})
		out.flush()
		return err
	})
}

// inOrder asks about each block, on all workers at once, and hands the answers on in the blocks' order.
func inOrder(ctx context.Context, workers workers, blocks []string, ask bounds.Options, done func(bounds.Answer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]chan bounds.Answer, len(blocks))
	for i := range answers {
		answers[i] = make(chan bounds.Answer, 1)
	}
	next := make(chan int)
	var running sync.WaitGroup
	defer running.Wait()
	for _, p := range workers {
		running.Go(func() {
			for i := range next {
				code, _ := hex.DecodeString(blocks[i]) // distinctBlocks made the digits
				a, err := bounds.Find(ctx, p, profiler.Block{Code: code}, ask)
				if err != nil {
					cancel(err)
					return
				}
				answers[i] <- a
			}
		})
	}
	running.Go(func() {
		defer close(next)
		for i := range blocks {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	for i := range answers {
		select {
		case a := <-answers[i]:
			if err := done(a); err != nil {
				cancel(err)
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

type boundsWriter struct {
	csv  *csv.Writer
	json *json.Encoder
	rows int
}

func newBoundsWriter(w io.Writer, asJSON bool) *boundsWriter {
	if asJSON {
		return &boundsWriter{json: json.NewEncoder(w)}
	}
	out := &boundsWriter{csv: csv.NewWriter(w)}
	out.csv.Write(bounds.Columns()) // errors stay, for Error
	return out
}

func (w *boundsWriter) write(a bounds.Answer) error {
	w.rows++
	if w.json != nil {
		return w.json.Encode(a)
	}
	w.csv.Write(a.Row())
	return w.csv.Error()
}

func (w *boundsWriter) flush() {
	if w.csv != nil {
		w.csv.Flush()
	}
}
