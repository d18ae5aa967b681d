package profiler

import (
	"slices"
	"strings"
	"testing"
)

// A block that moves on with each copy has a warning; one that does not has none.
func TestWalksOn(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		walks     bool
	}{
		{"mov rax, [rbx]; add rbx, 32", "488b03" + "4883c320", true},
		{"mov rax, [rbx]", "488b03", false},
	} {
		r := prepared(t, Options{}, unhex(t, c.hex))
		says := slices.ContainsFunc(r.Warnings(), func(w string) bool { return strings.HasPrefix(w, "it touches new pages") })
		if says != c.walks {
			t.Errorf("%s: warnings %q", c.name, r.Warnings())
		}
	}
}
