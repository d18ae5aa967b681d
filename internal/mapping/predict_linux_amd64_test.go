package mapping

import (
	"testing"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
)

// With or without prediction, a block gets the pages that it needs; with prediction this takes one stop.
func TestPredict(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		name, hex string
		stops     int
	}{
		{"no memory", "4801d8", 1},
		{"two pointers", "488b03488b8b00200000", 1},
		{"across two pages", "488b83fd090000", 1},
		{"a page for some copies", "488b034883c340", 1},
		{"a pointer from memory", "488b18488b8b00300000", 1},
		{"a pointer that a store to an unknown address changed", "4889c2480fca480fca48c7c10000002048890a488b30488bbe00001000", 3},
		{"an unknown address", "480fcb480fcb488b8b00300000", 2},
	} {
		task := b.task(unhex(t, c.hex))
		task.Frames = 1
		task.Check = func(*MappedBlock) (Findings, error) { return Findings{}, nil }
		want, err := b.begin(task)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := task.Prepare([]initial.State{initial.Paper()})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		require.Equal(t, c.name, want.Pages, got.Pages)
		if got.Stops != c.stops {
			t.Errorf("%s: %d stops, want %d", c.name, got.Stops, c.stops)
		}
	}
}

// addDirty skips the run if the trace shows that all stored words are restored.
func TestRestoresAll(t *testing.T) {
	b := openBench(t)
	for hex, want := range map[string]bool{
		"c70307000000":               true,  // mov dword ptr [rbx], 7
		"48890b":                     false, // a word that keeps its value
		"48f713":                     false, // not: an even number of copies changes nothing
		"c703070000004883c308":       true,
		"c7030700000048894308":       false,
		"c70307000000c7430807000000": true,
	} {
		m, err := b.begin(b.task(unhex(t, hex)))
		if err != nil {
			t.Fatalf("%s: %v", hex, err)
		}
		if m.restoresAll != want {
			t.Errorf("%s: %v, want %v", hex, m.restoresAll, want)
		}
	}
}
