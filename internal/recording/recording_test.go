package recording

import (
	"bytes"
	"compress/gzip"
	"strings"
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
	got := require.Get(Read(compressed(text.String())))(t)
	require.Equal(t, "it", &example, got, cmp.AllowUnexported(Recording{}))
}

func compressed(text string) *bytes.Buffer {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	zip.Write([]byte(text))
	zip.Close()
	return &b
}

func TestReadRefuses(t *testing.T) {
	const head = `{"bbprof_recording":2,"step":26,"ticks_per_second":2.596e9`
	for text, want := range map[string]string{
		"":                       "EOF",
		"hex,cycles\n":           "invalid character",
		`{"bbprof_recording":1}`: "version 2",
		`{"bbprof_recording":2}`: "no clock",
		head + `,"starts":[{"tries":[[[1,2,3,4,"x"]]]}]}`:        "cannot unmarshal string",
		head + `,"blocks":[{"code":"SA==","short":3,"long":1}]}`: "3 and 1 copies",
	} {
		if _, err := Read(compressed(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(strings.NewReader(head + "}")); err == nil || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("not compressed: %v", err)
	}
}
