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
	const head = "bbprof-recording 1\nclock 26 2596000000\n"
	for text, want := range map[string]string{
		"":                                   "empty",
		"hex,cycles\n":                       "line 1",
		"bbprof-recording 2\n":               "version 1",
		"bbprof-recording 1\n":               "clock steps",
		head + "r 1 2 3 4 5\n":               "line 3",
		head + "start\nr 1 2 3 4\n":          "line 4",
		head + "start\nr 1 2 3 4 x\n":        "line 4",
		head + "clock 0 1\n":                 "no clock",
		head + "block 48 1 1 300 100\n":      "300 and 100 copies",
		head + "block 4g 1 1 100 300\n":      "line 3",
		head + "block 48 1 1 100 300\nt 1\n": "line 4",
		head + "what 1\n":                    "no place",
	} {
		if _, err := Read(compressed(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(strings.NewReader("bbprof-recording 1\n")); err == nil || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("not compressed: %v", err)
	}
}

// Whatever is read is written so that it reads alike.
func FuzzRead(f *testing.F) {
	var text bytes.Buffer
	require.NoError(f, example.Write(&text))
	f.Add(text.String())
	f.Fuzz(func(t *testing.T, text string) {
		first, err := Read(compressed(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		require.NoError(t, first.Write(&again))
		if _, err := Read(compressed(again.String())); err != nil {
			t.Error(err)
		}
	})
}
