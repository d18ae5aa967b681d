package tracee

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
)

// spin is an image that never ends.
func spin(e *asm.Emitter) { e.Raw(0xeb, 0xfe) } // jmp $

func TestOvertime(t *testing.T) {
	c := launch(t)
	place(c, spin)
	const limit = 20 * time.Millisecond
	_, err := c.Do([]Op{Run(entry, 1)}, limit)
	var dead *DeadError
	if !errors.As(err, &dead) || !dead.Overtime || dead.Limit != limit {
		t.Fatalf("%v, want an overtime of %v", err, limit)
	}
	if c.Alive() {
		t.Error("the child counts as alive")
	}
	if _, err := c.Do(nil, generous); err != dead {
		t.Errorf("the next Do says %v", err)
	}
}

func TestKilledFromOutsideWhileRunning(t *testing.T) {
	c := launch(t)
	place(c, spin)
	pid := c.pid
	time.AfterFunc(5*time.Millisecond, func() { unix.Kill(pid, unix.SIGKILL) })
	_, err := c.Do([]Op{Run(entry, 1)}, generous)
	var dead *DeadError
	if !errors.As(err, &dead) || dead.Overtime {
		t.Fatalf("%v, want a death that is no overtime", err)
	}
}

func TestKilledFromOutsideWhileStopped(t *testing.T) {
	c := launch(t)
	mustServe(t, c)
	if err := unix.Kill(c.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, err := c.Do(nil, generous)
	var dead *DeadError
	if !errors.As(err, &dead) || dead.Overtime {
		t.Fatalf("%v, want a death that is no overtime", err)
	}
	if c.Alive() {
		t.Error("the child counts as alive")
	}
}

func TestKillFromAnotherGoroutine(t *testing.T) {
	c := launch(t)
	place(c, spin)
	time.AfterFunc(5*time.Millisecond, c.Kill)
	_, err := c.Do([]Op{Run(entry, 1)}, generous)
	var dead *DeadError
	if !errors.As(err, &dead) || dead.Overtime {
		t.Fatalf("%v, want a death that is no overtime", err)
	}
}

// A limit that passes just as the child stops by itself belongs to this list: a Do that
// returned without error leaves a child that serves, and no later Do is told of an overtime
// that was not its own.
func TestLimitPassesAtTheStop(t *testing.T) {
	var served, late int
	for i := range 150 {
		t.Run("", func(t *testing.T) {
			c := launch(t)
			_, err := c.Do(nil, time.Duration(1+i%50)*time.Microsecond)
			var dead *DeadError
			switch {
			case err == nil:
				served++
				for range 3 {
					mustServe(t, c)
				}
			case errors.As(err, &dead) && dead.Overtime:
				late++
			default:
				t.Fatal(err)
			}
		})
	}
	t.Logf("%d served, %d were late", served, late)
}

// Kill and Close may meet. Run with -race, this fails when they share fields unguarded;
// without, a Kill that uses a descriptor after Close could hit the next child.
func TestKillMeetsClose(t *testing.T) {
	for range 20 {
		c := launch(t)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(c.Kill)
		}
		c.Close()
		wg.Go(c.Kill)
		next := launch(t)
		wg.Wait()
		mustServe(t, next)
		next.Close()
	}
}

// A caller on another thread gets an error, not a child that waits forever.
func TestWrongThread(t *testing.T) {
	c := launch(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, err := c.Do(nil, generous)
		done <- err
	}()
	if err := <-done; err == nil {
		t.Error("ptrace obeyed a thread that did not attach")
	}
}
