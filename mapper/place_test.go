package mapper

import (
	"strconv"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestPlace(t *testing.T) {
	for _, row := range require.Table(t, "place.txt") {
		var at *uint64
		if row[1] != "" {
			at = new(require.Get(strconv.ParseUint(row[1], 0, 64))(t))
		}
		code, want := require.Hex(t, row[0]), require.Hex(t, row[2])
		require.Equal(t, row[0]+": "+row[3], want, Place(code, at))
		require.Equal(t, "the code given", require.Hex(t, row[0]), code)
	}
}
