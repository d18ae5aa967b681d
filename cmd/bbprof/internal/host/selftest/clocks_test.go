package selftest

import "testing"

func TestCompareClocks(t *testing.T) {
	at := func(hex string, cycles, half float64) Outcome {
		return Outcome{Text: hex, Hex: hex, Cycles: cycles, CILow: cycles - half, CIHigh: cycles + half}
	}
	perf := []Outcome{at("a", 3, 0), at("b", 3, 0), at("c", 1, 0), at("d", 1, 0), at("e", 10, 0.2), at("f", 10, 0.2),
		at("only", 1, 0), at("not measured", 0, 0)}
	tsc := []Outcome{at("a", 3.0449, 0), at("b", 3.05, 0), at("c", 1.0199, 0), at("d", 1.0204, 0), at("e", 10.49, 0.3),
		at("f", 10.51, 0.3), at("not measured", 1, 0), at("other", 1, 0)}
	want := map[string]bool{"a": true, "b": false, "c": true, "d": false, "e": true, "f": false}
	got := CompareClocks(perf, tsc)
	if len(got) != len(want) {
		t.Errorf("%+v", got)
	}
	for _, c := range got {
		if agree, ok := want[c.Hex]; !ok || c.Agree != agree {
			t.Errorf("%+v", c)
		}
	}
}
