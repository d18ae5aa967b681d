package mapper

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestPlace(t *testing.T) {
	at := func(address uint64) *uint64 { return &address }
	for i, tt := range []struct {
		hex  string
		at   *uint64
		want string
	}{
		{"488b0511000000c3", nil, "488b0511000000c3"}, // an eighth of a line at 24 already
		{"488b0510000000c3", nil, "488b0511000000c3"},
		{"0f280501000000", nil, "0f280509000000"},                               // movaps: at 8, and to be at 16
		{"488b0501000000488b0509000000", nil, "488b0501000000488b0509000000"},   // at 8 and at 23, which no distance aligns both of: neither harms
		{"488b0536000000", nil, "488b0539000000"},                               // at 61, across a line
		{"62f17c481005c1000000", nil, "62f17c481005f6000000"},                   // 64 bytes at 203
		{"488d053900000090", nil, "488d053900000090"},                           // an address alone, at a line
		{"488d0500000000 488b0502000000", nil, "488d0500000000 488b0502000000"}, // the access decides, not the address
		// No one distance serves 16 bytes at 24 and 16 bytes at 4097: far apart, each moves by itself.
		{"0f280511000000 0f2805f30f0000", nil, "0f280519000000 0f280502100000"},
		{"dbaa0000000090", nil, "dbaa0000000090"},
		{"488b0510000000c3", at(0x401000), "488b0510000000c3"},
		{"488b0510000000c3", at(0), "488b0510000000c3"}, // of an object file
		{"488b051000000090488d0df0ffffff", at(0x401123), "488b053301000090488d0d13010000"},
		{"488b05ffffff7f", at(1), "488b05ffffff7f"}, // there is no displacement that is one more
		{"4801c0", at(0x123), "4801c0"},
		{"06", at(0x123), "06"},
	} {
		tt.hex, tt.want = strings.ReplaceAll(tt.hex, " ", ""), strings.ReplaceAll(tt.want, " ", "")
		code := require.Get(hex.DecodeString(tt.hex))(t)
		require.Equal(t, fmt.Sprintf("case %d, %s", i, tt.hex), tt.want, hex.EncodeToString(Place(code, tt.at)))
		require.Equal(t, tt.hex, tt.hex, hex.EncodeToString(code))
	}
}
