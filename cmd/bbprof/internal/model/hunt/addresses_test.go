package hunt

import (
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestOnlyKeepsAddresses: the remaining instructions keep their addresses, or the candidate is not tried.
func TestOnlyKeepsAddresses(t *testing.T) {
	for _, row := range require.Table(t, "addresses.txt") {
		var kept []int
		for i := range strings.FieldsSeq(row[1]) {
			kept = append(kept, require.Get(strconv.Atoi(i))(t))
		}
		got := Case{}
		if b := newBlock(row[0]).only(kept); b != nil {
			got = b.asCase()
		}
		require.Equal(t, row[4], Case{row[2], row[3]}, got)
	}
}

// TestExchangedKeepsAddresses: a longer instruction moves later ones, but not their operands.
func TestExchangedKeepsAddresses(t *testing.T) {
	b := newBlock("4883c007488905231f0d00").exchanged(0, []byte{0x48, 0x05, 7, 0, 0, 0}) // add rax, 7 in six bytes
	if b == nil || b.hex != "480507000000488905211f0d00" {
		t.Errorf("got %+v", b)
	}
}
