package instructions

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

// TestIBench: what OSACA's importer reads, which knows general registers of one kind, no opmasks and no form without operands.
func TestIBench(t *testing.T) {
	var rows []Row
	for i, form := range []string{
		"add r32, r32", "add r64, r64", "add r8, r8", "vaddps xmm, xmm, m128", "imul r64, r64, i8",
		"kaddb k, k, k", "shl r64, cl", "cdq", "vsqrtps ymm, ymm", "add m64, r64"} {
		n := float64(i + 1)
		rows = append(rows, Row{Form: asm.FormNamed(form), Throughput: &Measurement{Value: Value{Cycles: n / 4}}, Latency: &Measurement{Value: Value{Cycles: n}}})
	}
	rows[3].Load = &Measurement{Value: Value{Cycles: 11}}
	rows[8].Throughput.Mean = "unstable"
	rows = append(rows, Row{Snippet: &Snippet{}})
	require.Equal(t, "it", `add-r_r-TP: 0.500 (clock cycles)
add-r_r-LT: 2.000 (clock cycles)
vaddps-mb_x_x-TP: 1.000 (clock cycles)
vaddps-mb_x_x-LT: 11.000 (clock cycles)
imul-i_r_r-TP: 1.250 (clock cycles)
imul-i_r_r-LT: 5.000 (clock cycles)
vsqrtps-y_y-LT: 9.000 (clock cycles)
add-r_mb-TP: 2.500 (clock cycles)
`, IBench(rows))
}
