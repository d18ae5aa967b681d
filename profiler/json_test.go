package profiler

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/require"
)

// TestWhyOnce: JSON omits a counter's why only if it equals that of the counter before.
func TestWhyOnce(t *testing.T) {
	for _, c := range []struct{ given, want []string }{
		{nil, nil},
		{[]string{"none"}, []string{"none"}},
		{[]string{"none", "none", "none"}, []string{"none", "", ""}},
		{[]string{"none", "", "none"}, []string{"none", "", "none"}},
		{[]string{"none", "doubled", "doubled", "none"}, []string{"none", "doubled", "", "none"}},
	} {
		var r Result
		for _, why := range c.given {
			r.Counters = append(r.Counters, CounterReport{Why: why})
		}
		text := require.Get(json.Marshal(r))(t)
		var parsed struct{ Counters []CounterReport }
		require.NoError(t, json.Unmarshal(text, &parsed))
		var got, kept []string
		for i, report := range parsed.Counters {
			got, kept = append(got, report.Why), append(kept, r.Counters[i].Why)
		}
		require.Equal(t, c.given, "", cmp.Diff(c.want, got)+cmp.Diff(c.given, kept))
	}
}
