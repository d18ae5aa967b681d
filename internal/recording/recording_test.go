package recording

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/require"
)

var example = Recording{
	CPU:            CPU{"AuthenticAMD", 25, 17, 1, "Zen 4"},
	Registers:      []Registers{{1, 0, 0xa10f11, 2, 3, 0xffffffff}},
	Step:           26,
	TicksPerSecond: 2.596e9,
	Iterations:     64,
	Nops:           true,
	Code:           "5f2c",
	Starts: []Start{
		{Note: "idle", Tries: [][]Sample{{{806, 780, 3666, 2210, 10842}}, {{832, 780, 3666, 2210, 10868}}}, Bursts: []uint64{390, 416}},
		{Note: "", Tries: [][]Sample{nil}},
	},
	Blocks: []Block{{
		Code: []byte{0x48, 0x01, 0xc0}, Low: 1, High: 1, Short: 100, Long: 300,
		Windows: []Window{
			{Replicate: 0, Layout: 3, Probe: 806, Chains: []uint64{780, 3666}, Runs: [][]uint64{{130, 104}, {312, 286}}},
			{Replicate: 1, Layout: 9, Switched: true},
		},
	}},
}

func TestRoundTrip(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, example.Write(&text))
	var got Recording
	require.NoError(t, json.Unmarshal(text.Bytes(), &got))
	require.Equal(t, "it", example, got, cmp.AllowUnexported(Recording{}))
}
