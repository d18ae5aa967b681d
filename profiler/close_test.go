package profiler

import (
	"errors"
	"sync"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// After Close every method returns ErrClosed, and a second Close does nothing.
func TestClosed(t *testing.T) {
	p := start(t, Options{})
	p.Close()
	p.Close()
	ctx := t.Context()
	if _, err := p.Profile(ctx, Block{Code: []byte{0x90}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Profile: %v", err)
	}
	if _, err := p.AllEvents(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("AllEvents: %v", err)
	}
	if err := p.CanCount(ctx, "instructions"); !errors.Is(err, ErrClosed) {
		t.Errorf("CanCount: %v", err)
	}
	err := p.ProfileAll(ctx, func() (Block, bool) {
		t.Error("ProfileAll asks for a block")
		return Block{}, false
	}, nil)
	if !errors.Is(err, ErrClosed) {
		t.Errorf("ProfileAll: %v", err)
	}
}

// Several goroutines share a profiler, and one of them closes it: each block is measured or rejected with ErrClosed.
func TestConcurrentUse(t *testing.T) {
	p, err := New(t.Context(), Options{Budget: 1})
	require.Measure(t, err)
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			for n := 0; ; n++ {
				r, err := p.Profile(t.Context(), Block{Code: []byte{0x48, 0x01, 0xc0}})
				switch {
				case errors.Is(err, ErrClosed):
					return
				case err != nil || r.Hex != "4801c0" || r.Status == Failed:
					t.Errorf("%+v, %v", r, err)
					return
				case i == 0 && n == 3:
					p.Close()
				}
			}
		})
	}
	users.Wait()
}
