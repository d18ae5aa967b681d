package asm

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestX87Stack(t *testing.T) {
	for _, row := range require.Table(t, "x87.txt") {
		needs, net, steady := X87Stack(mustDecode(t, row[0]))
		got := []string{row[0], fmt.Sprint(needs), fmt.Sprint(net), "steady", row[4]}
		if !steady {
			got[1], got[3] = "", "unsteady"
		}
		require.Equal(t, row[4], row, got)
	}
}

func TestX87Pointer(t *testing.T) {
	for _, row := range require.Table(t, "x87_pointer.txt") {
		refused, reason := "", verdict.Reason("")
		if r := Refuse(mustDecode(t, row[0])); r != nil {
			refused, reason = fmt.Sprint(r.Inst.Index), r.Reason
		}
		if refused != row[1] || reason != "" && reason != verdict.Nondeterministic {
			t.Errorf("%s: instruction %q is refused, %s, want %q", row[2], refused, reason, row[1])
		}
	}
}
