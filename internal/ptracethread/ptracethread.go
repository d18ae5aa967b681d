// Package ptracethread runs work on an operating-system thread that one goroutine owns.
//
// Linux ties three things to a thread that bbprof needs to be one: ptrace obeys only the thread that attached
// (ptrace(2)), a CPU mask is a thread's (sched_setaffinity(2)), and a child inherits the mask of the thread that
// starts it. The goroutine locks its thread and never unlocks it: the Go runtime then ends the thread with the
// goroutine, so that no other goroutine ever runs on a thread that is bound to a CPU.
package ptracethread

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

var ErrClosed = errors.New("the thread has been closed")

// Thread is a goroutine that owns its thread and does work for others, one piece at a time. All its
// methods may be called from any goroutine.
type Thread struct {
	work  chan func()
	quit  chan struct{} // closed by Close
	ended chan struct{} // closed when the goroutine is at its end
	once  sync.Once
}

func Start() *Thread {
	t := &Thread{work: make(chan func()), quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		runtime.LockOSThread()
		for {
			select {
			case f := <-t.work:
				f()
			case <-t.quit:
				return
			}
		}
	}()
	return t
}

// Do runs f on the thread and returns when f has. It waits until work that others asked for is done;
// if ctx ends first, f does not run, and Do returns ctx's error. After Close it returns ErrClosed.
func (t *Thread) Do(ctx context.Context, f func()) error {
	select {
	case <-t.quit:
		return ErrClosed // even if the goroutine has not noticed yet
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	done := make(chan struct{})
	select {
	case t.work <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-t.quit:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the thread when the work that has begun is done, and returns after that. It may be
// called more than once. Work may not call it.
func (t *Thread) Close() {
	t.once.Do(func() { close(t.quit) })
	<-t.ended
}

func Run(f func()) {
	t := Start()
	defer t.Close()
	_ = t.Do(context.Background(), f) // neither closed nor cancelled
}
