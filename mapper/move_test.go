package mapper

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestMove(t *testing.T) {
	for _, row := range require.Table(t, "move.txt") {
		code, preset, want, name := row[0], row[1], row[2], row[3]
		state := initial.Paper()
		if preset != "" {
			set := require.Get(initial.ParseSet(preset))(t)
			state = set.Over(state)
		}
		insts := require.Get(asm.DecodeHex(code))(t)
		reason := verdict.Misaligned
		if strings.Contains(name, "alias") {
			reason = verdict.Alias4K
		}
		got, ok := Mover{Insts: insts, Copies: 96, StoreBuffer: 56}.Move(state, reason)
		if ok != (want != "") || ok && got.Set != want {
			t.Errorf("%s: moved %v, to %q, want %q", name, ok, got.Set, want)
		}
	}
}
