package bounds

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/cpu"
)

// TestLatencyByCore: a core has the latencies of its column, and one that is not known those of the first.
func TestLatencyByCore(t *testing.T) {
	for _, c := range []struct {
		hex  string
		core cpu.Name
		want float64
	}{
		{"480fafc0", cpu.Skylake, 3}, // imul rax, rax
		{"480fafc0", cpu.Gracemont, 5},
		{"480fafc0", cpu.Skymont, 4},
		{"480fafc0", cpu.Unknown, 3},
		{"f30fb8c0", cpu.LionCove, 4}, // popcnt eax, eax
		{"f30fb8c0", cpu.CougarCove, 4},
		{"f30fb8c0", cpu.Zen5c, 1},
		{"4811c0", cpu.Crestmont, 2}, // adc rax, rax
		{"480f42c1", cpu.Crestmont, 2},
		{"0f92c0", cpu.Crestmont, 1}, // setb al
	} {
		insts, err := asm.DecodeHex(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := latency(&insts[0], dependency{}, string(c.core)); !ok || got != c.want {
			t.Errorf("%s on %s: %v, %v, want %v", insts[0].Text(), c.core, got, ok, c.want)
		}
	}
	for n, m := range map[cpu.Name]int{cpu.Haswell: 3, cpu.LionCove: 3, cpu.Gracemont: 5, cpu.Crestmont: 5, cpu.Skymont: 4, cpu.Zen: 3, cpu.Zen5: 3} {
		if of := cpu.Of(n); of.MultiplyCycles != m || latencies["imul"][of.Latencies] != float64(m) {
			t.Errorf("%s multiplies in %d", n, of.MultiplyCycles)
		}
	}
}
