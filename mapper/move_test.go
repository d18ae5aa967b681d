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
	for _, tt := range []struct {
		name, hex, set, want string
	}{
		{"a load of 8 bytes at 0x3d", "488b433d", "", "rbx=0x12345603"},
		{"of 3 bytes below a line", "488b4338", "", ""},
		{"16 bytes before, by one register, and behind, by another", "f20ff046b4f30f7f4784", "", "rsi=0x1234560c"},
		{"a demand that holds on no line's end", "0f2849f8", "", "rcx=0x12345608"},
		{"an address that a lea made", "488d433d488b08", "", "rbx=0x12345603"},
		{"a pointer from memory", "488b03488b483d", "", ""},
		{"a register that the user has set", "488b433d", "rbx=0x12345600", ""},
		{"another one", "488b433d", "rcx=0x1", "rcx=0x1,rbx=0x12345603"},
		{"a pointer that reaches the line's end late", "488b43044883c308", "", "rbx=0x12345604"},
		{"a pointer that goes through all of a line", "488b034883c307", "", ""},
		{"an alias of two pointers", "488908488b9300100000", "", "rax=0x12345640"},
		{"an alias of one pointer with itself", "488908488b9000100000", "", ""},
		{"an alias, the pointer that the user has not set", "488908488b9300100000", "rax=0x12345600", "rax=0x12345600,rbx=0x12345640"},
		{"no alias: a store and a load of it", "488908488b13", "", ""},
		{"no alias: the store left the buffer", "488b9300100000488908" + strings.Repeat("48894840", 56), "", ""},
	} {
		state := initial.Paper()
		if tt.set != "" {
			set := require.Get(initial.ParseSet(tt.set))(t)
			state = set.Over(state)
		}
		insts := require.Get(asm.DecodeHex(tt.hex))(t)
		reason := verdict.Misaligned
		if strings.Contains(tt.name, "alias") {
			reason = verdict.Alias4K
		}
		got, ok := Mover{Insts: insts, Copies: 96, StoreBuffer: 56}.Move(state, reason)
		if ok != (tt.want != "") || ok && got.Set != tt.want {
			t.Errorf("%s: moved %v, to %q, want %q", tt.name, ok, got.Set, tt.want)
		}
	}
}
