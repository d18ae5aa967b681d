package blockflags

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestAddress: a block with an address is studied where its program has it.
func TestAddress(t *testing.T) {
	s := OneSetup(&profiler.Options{}, profiler.Block{Setup: profiler.Setup{Address: new(uint64(0x401c3f))}})
	require.Equal(t, "the first copy's place", 0xc3f, *s.CodeOffset)
}
