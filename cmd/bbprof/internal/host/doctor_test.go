package host

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestRecordingSize: help says how large a recording is, as one at hand has it.
func TestRecordingSize(t *testing.T) {
	info := require.Get(os.Stat("../../../../testdata/cores/zen4-genoa.gz"))(t)
	help, said := doctorCommand().Declared().Lookup("record").Help, 0
	_, after, _ := strings.Cut(help, "; some ")
	if _, err := fmt.Sscanf(after, "%d KB", &said); err != nil || float64(said)*1000 > 1.3*float64(info.Size()) || float64(said)*1000 < 0.7*float64(info.Size()) {
		t.Errorf("it is %d bytes, and help says %q", info.Size(), help)
	}
}
