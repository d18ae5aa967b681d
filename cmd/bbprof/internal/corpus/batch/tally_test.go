package batch

import (
	"strings"
	"testing"
)

// TestReportReasons: the most frequent reason comes first, with the longest bar.
func TestReportReasons(t *testing.T) {
	var w strings.Builder
	(&Tally{Reasons: map[string]int64{"unstable": 1, "alias_4k": 2, "bad_hex": 1}}).Report(&w)
	lines := strings.Split(w.String(), "\n")
	long, short := strings.Repeat("#", barWidth), strings.Repeat("#", barWidth/2)
	for i, want := range []string{"2  alias_4k           " + long, "1  bad_hex            " + short, "1  unstable           " + short} {
		if got := strings.TrimSpace(lines[2+i]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestReportErrors: of rows that are error the report says where to read why.
func TestReportErrors(t *testing.T) {
	for failed, want := range map[int64]bool{0: false, 2: true} {
		var w strings.Builder
		(&Tally{Rows: 2, Failed: failed}).Report(&w)
		if got := strings.Contains(w.String(), "the column detail says what failed"); got != want {
			t.Errorf("%d errors: the report names the column detail: %v, want %v", failed, got, want)
		}
	}
}
