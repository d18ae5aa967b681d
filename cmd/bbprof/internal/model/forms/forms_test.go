package forms

import (
	"regexp"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestSelect: by default without {k} and {k}{z} of each, or broadcasts; gathers are always masked.
func TestSelect(t *testing.T) {
	for match, want := range map[string][2]int{"^vpternlogd$": {6, 27}, "^vpgatherdd$": {5, 5}} {
		for i, all := range []bool{false, true} {
			require.Equal(t, match, want[i], len(Select(regexp.MustCompile(match), all)))
		}
	}
}
