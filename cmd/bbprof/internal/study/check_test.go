package study

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/internal/require"
)

// sure is a check that found a function slower, one as fast and one faster.
func sure() checked {
	codes := check.Codes()
	function := func(name, code string, v check.Verdict, head float64) check.Function {
		base, _ := codes([]byte{0x48, 0x01, 0xc0})
		changed, _ := codes([]byte(code))
		return check.Function{Name: name, Changes: []check.Change{{What: check.Changed,
			Base:    []*check.Piece{{Code: base, Source: "a.c:3"}},
			Head:    []*check.Piece{{Code: changed, Source: "a.c:7"}},
			Outcome: check.Outcome{Verdict: v, Times: check.Times{Base: 1, Head: head, Interval: &check.Interval{Difference: 100 * (head - 1), Low: 100*head - 101, High: 100*head - 99}}},
		}}}
	}
	return checked{Threshold: 0.03, Functions: []check.Function{
		function("slow", "\x48\x0f\xaf\xc0", check.Slower, 3),
		function("same", "\x48\xf7\xd8", check.Same, 1),
		function("fast", "\x90", check.Faster, 0.25),
	}}
}

// TestCheckFormats: each format names the slower function in its own words.
func TestCheckFormats(t *testing.T) {
	for format, want := range map[string]string{
		"json":                    `"function":"slow","changes":[{"what":"changed",`,
		"junit":                   `<testsuite name="bbprof check" tests="3" failures="1" skipped="0">`,
		"sarif":                   `"ruleId":"cycles/slower"`,
		"bmf":                     `"slow/1":{"cycles":{"value":3,"lower_value":2.99,"upper_value":3.01}}`,
		"github-action-benchmark": `{"name":"slow/1","unit":"cycles","value":3,"range":"± 0.010","extra":"block changed: +200.0 % of 1.000, slower"}`,
	} {
		var out strings.Builder
		require.NoError(t, formats[format](&out, sure()))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %s in\n%s", format, want, &out)
		}
		if at := `"artifactLocation":{"uri":"a.c"},"region":{"startLine":7}`; format == "sarif" && strings.Count(out.String(), at) != 1 {
			t.Errorf("not one %s in\n%s", at, &out)
		}
	}
}

// TestCheckFails: which functions end a check with 1 is -fail-on's choice.
func TestCheckFails(t *testing.T) {
	for on, want := range map[failOn][3]bool{failOnNone: {}, failOnSlower: {true}, failOnAny: {true, false, true}} {
		c := checkCmd{threshold: 0.03, failOn: on}
		var got [3]bool
		for i, f := range sure().Functions {
			got[i] = c.fails(f)
		}
		require.Equal(t, string(on), want, got)
	}
}
