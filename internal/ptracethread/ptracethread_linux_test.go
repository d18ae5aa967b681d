package ptracethread

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/require"
)

func TestAllWorkRunsOnOneThread(t *testing.T) {
	thread := Start()
	defer thread.Close()
	ids := map[int]bool{}
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			if err := thread.Do(context.Background(), func() { ids[unix.Gettid()] = true }); err != nil { // one at a time: no lock
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.Equal(t, "threads", 1, len(ids))
}

// No goroutine may come to run on the thread afterwards: it could be bound to a CPU.
func TestThreadEndsWithRun(t *testing.T) {
	tid := 0
	Run(func() { tid = unix.Gettid() })
	if tid == unix.Gettid() {
		t.Errorf("thread %d is used again", tid)
	}
}

func TestClose(t *testing.T) {
	thread := Start()
	began, end := make(chan struct{}), make(chan struct{})
	done := false
	go func() {
		_ = thread.Do(context.Background(), func() { close(began); <-end; done = true })
	}()
	<-began
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := thread.Do(cancelled, func() { t.Error("ran for a cancelled context") }); !errors.Is(err, context.Canceled) {
		t.Errorf("while busy, with a cancelled context: %v", err)
	}
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(thread.Close)
	}
	<-thread.quit
	if err := thread.Do(context.Background(), func() { t.Error("ran after Close") }); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	close(end)
	wait.Wait()
	if !done {
		t.Error("Close did not wait for work that had begun")
	}
}

func TestFollowed(t *testing.T) {
	if name, tracer := Status("self", "Name"), TracerOf("self"); name == "" || tracer != Status("self", "TracerPid") && tracer != "" {
		t.Errorf("%q is traced by %q", name, tracer)
	}
	if host := followed(""); host != nil {
		t.Error(host)
	}
	if host := followed("17"); host == nil || !strings.Contains(host.Missing, "process 17 traces bbprof") {
		t.Error(host)
	}
}
