package instructions

import (
	"context"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestSchedClasses: a maintainer looks for a mistake by the class's name.
func TestSchedClasses(t *testing.T) {
	require.Tool(t, require.LLVM, "llvm-exegesis-22")
	names := require.Get(SchedClasses(context.Background(), "znver4", [][]byte{{0x4c, 0x89, 0x60, 0x18}, {0xc5, 0xf4, 0x58, 0xc2}, {0x06}}))(t)
	if names[0] != "WriteStore" || names[1] == "" || names[1] == names[0] || names[2] != "" {
		t.Errorf("%q", names)
	}
}
