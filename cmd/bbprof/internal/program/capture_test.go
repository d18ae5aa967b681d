package program

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/require"
)

// TestCaptureListed: blocks of a table are ordered by executed instructions, and an invalid count is an error.
func TestCaptureListed(t *testing.T) {
	table := filepath.Join(t.TempDir(), "blocks.csv")
	for _, c := range []struct{ rows, want string }{
		{"90,often,0x1000,5\n4801c04801c04801c0,long,0x2000,2\n", "long"},
		{"90,often,0x1000,7\n4801c04801c04801c0,long,0x2000,2\n", "often"},
		{"90,often,0x1000,2.5e6\n", table + `:2: count "2.5e6": write a whole number`},
	} {
		require.NoError(t, os.WriteFile(table, []byte("hex,file,address,count\n"+c.rows), 0o666))
		capturing := captureCmd{blocks: table, top: 1}
		got, err := capturing.choose(t.Context(), launch.Command{}, nil, cli.Streams{}, io.Discard)
		if said := fmt.Sprint(got, err); !strings.Contains(said, c.want) || (err == nil) != (len(got) == 1) {
			t.Errorf("%q: %s, want %s", c.rows, said, c.want)
		}
	}
}
