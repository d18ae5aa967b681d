package check

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestMeasured: unchanged blocks hardly ever raise an alarm, and the one made slower always does. A baseline disturbed
// by other work may spoil one run of three.
func TestMeasured(t *testing.T) {
	require.Slow(t)
	require.AtMost(t, 1, 3, func() string { return tryMeasured(t) })
}

func tryMeasured(t *testing.T) (complaint string) {
	t.Helper()
	ctx := require.Context(t)
	p, err := profiler.New(t.Context(), profiler.Options{})
	require.Measure(t, err)
	// Chains and independent instructions, with and without memory.
	instructions := [][]byte{{0x48, 0x01, 0xc0}, {0x48, 0x0f, 0xaf, 0xc0}, {0x48, 0x8b, 0x03}, {0x48, 0x8b, 0x00}, {0xf2, 0x0f, 0x58, 0xc0}}
	var blocks []Block
	for _, in := range instructions {
		for n := 1; n <= 4; n++ {
			b := Block{Code: bytes.Repeat(in, n)}
			r, err := measure.Number(ctx, p, profiler.Block{Code: b.Code})
			if err != nil {
				p.Close()
				require.Measure(t, err)
			}
			b.Cycles, b.Half = r.Cycles, (r.CIHigh-r.CILow)/2
			blocks = append(blocks, b)
		}
	}
	p.Close()
	options := Options{Threshold: 0.02, Start: func() (measure.ProfileCloser, error) { return profiler.New(t.Context(), profiler.Options{}) }}
	alarms, found := 0, 0
	const runs = 3
	for run := range runs {
		got, err := Run(ctx, blocks, options)
		require.Measure(t, err)
		alarms += count(got, Slower)

		slow := 4*run + run%4
		changed := append([]Block(nil), blocks...)
		changed[slow].Code = append(bytes.Clone(changed[slow].Code), bytes.Repeat(instructions[1], 5)...)
		got, err = Run(ctx, changed, options)
		require.Measure(t, err)
		if got[slow].Status == Unknown {
			require.Skip(t, require.Idle, "the core is not left alone: %v", got[slow].Rejection)
		}
		if got[slow].Status == Slower {
			found++
		} else {
			complaint = fmt.Sprintf("five more multiplications: %+v", got[slow])
		}
		alarms += count(got, Slower)
	}
	if alarms -= found; alarms > 1 {
		complaint = fmt.Sprintf("%d false alarms", alarms)
	}
	return complaint
}
