package host

import (
	"runtime"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestCachesOn: each CPU says what it has, and one that may not be used nothing.
func TestCachesOn(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		require.Skip(t, require.CPU, "not an x86-64 machine")
	}
	all := require.Get(AllowedCPUs())(t)
	for _, number := range all {
		if got := cachesOn(number); !slices.Equal(got, Caches(AskCPUID)) {
			t.Errorf("CPU %d: %+v", number, got)
		}
	}
	if got := cachesOn(5000); got != nil {
		t.Errorf("CPU 5000: %+v", got)
	}
}
