package debuggee

import (
	"encoding/hex"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestIsRepeated(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want bool
	}{
		{"f3a4", true}, {"f348a5", true}, {"f3a6", true}, {"f2a7", true}, {"f3aa", true}, {"f3ab", true}, {"f3ac", true}, {"f3ad", true},
		{"f2ae", true}, {"f348af", true}, {"66f3a5", true}, {"f366a5", true}, {"67f3a4", true}, {"64f3a4", true}, {"f36c", true}, {"f36f", true},
		{"a4", false}, {"48a5", false}, {"66a5", false}, // no prefix
		{"f390", false}, {"f30f1efa", false}, {"f2c3", false}, {"f30fb8c0", false}, // pause, endbr64, bnd ret, popcnt
		{"f3a8", false}, {"f3a9", false}, {"f3a3", false}, {"f36b", false}, {"f370", false}, {"f3b0", false}, // next to the string instructions
		{"ebfe", false}, {"e2fe", false}, {"", false}, {"f3", false},
	} {
		code := require.Get(hex.DecodeString(c.hex))(t)
		require.Equal(t, c.hex, c.want, isRepeated(code))
	}
}
