package block

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestModelsBesideResult: predictions are always shown, and compared with the measurement only if there is one.
func TestModelsBesideResult(t *testing.T) {
	measured := profiler.Result{Hex: "90", Status: profiler.OK, Cycles: 2, CILow: 1.98, CIHigh: 2.02}
	rejected := profiler.Result{Hex: "90", Status: profiler.Rejected}
	for _, tt := range []struct {
		result     profiler.Result
		prediction Prediction
		text, json string
	}{
		{measured, Prediction{Name: "m", Source: "m 1.0", Cycles: 3}, "m: 3.000 cycles, +50.0 % (m 1.0)", `[{"name":"m","source":"m 1.0","cycles":3}]`},
		{measured, Prediction{Name: "m", Source: "m", Cycles: 1.98}, "m: 1.980 cycles, within the interval", `[{"name":"m","source":"m","cycles":1.98}]`},
		{measured, Prediction{Name: "m", Source: "m", Failure: "died"}, "m: no prediction: died", `[{"name":"m","source":"m","failure":"died"}]`},
		{rejected, Prediction{Name: "m", Source: "m", Cycles: 3}, "m: 3.000 cycles", `[{"name":"m","source":"m","cycles":3}]`},
	} {
		r := Result{Result: tt.result, Models: []Prediction{tt.prediction}}
		require.Equal(t, "report", "model       "+tt.text+"\n", r.beside())
		text, err := json.Marshal(r)
		var keys map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(text, &keys)
		}
		if err != nil || string(keys["models"]) != tt.json || string(keys["hex"]) != `"90"` {
			t.Errorf("%v: %s, want models %s", err, text, tt.json)
		}
	}
	for want, d := range map[string]Distinct{
		"": {0.5, "low", false, false, false},
		"; words of memory are equal there, too: -mem gives them others": {0.5, "low", false, false, true},
		", and with indices in memory that differ":                       {0.5, "low", true, false, false},
		", and with indices in memory that differ, its branch left out":  {0.5, "low", true, true, false},
	} {
		r := Result{Result: measured, Distinct: d}
		require.Equal(t, "report", "distinct    0.500 cycles without equal pointers (-init low)"+want+"\n", r.beside())
		if text := require.Get(json.Marshal(r))(t); !strings.HasSuffix(string(text), `,"distinct_cycles":0.5}`) {
			t.Errorf("got %s", text)
		}
	}
	with, _ := json.Marshal(Result{Result: measured})
	without, _ := json.Marshal(measured)
	require.Equal(t, "without models", string(without), string(with))
}
