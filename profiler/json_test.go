package profiler

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhyOnce: in JSON a counter's why is left out where it is as of the counter before, and there alone.
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
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var parsed struct{ Counters []CounterReport }
		if err := json.Unmarshal(text, &parsed); err != nil {
			t.Fatal(err)
		}
		var got, kept []string
		for i, report := range parsed.Counters {
			got, kept = append(got, report.Why), append(kept, r.Counters[i].Why)
		}
		if d := cmp.Diff(c.want, got) + cmp.Diff(c.given, kept); d != "" {
			t.Errorf("%q: %s", c.given, d)
		}
	}
}
