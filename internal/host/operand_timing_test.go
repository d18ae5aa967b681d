package host

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// registers are model-specific registers by their number; others cannot be read.
type registers map[int64]uint64

func (r registers) ReadAt(to []byte, number int64) (int, error) {
	value, ok := r[number]
	if !ok {
		return 0, errors.New("input/output error")
	}
	binary.LittleEndian.PutUint64(to, value)
	return 8, nil
}

func TestOperandTiming(t *testing.T) {
	const unreadable = "unknown, since the model-specific register cannot be read: input/output error"
	for want, r := range map[string]registers{
		unreadable:           {},
		"this core has none": {archCapabilities: ^uint64(hasOperandTimingMode)},
		"on":                 {archCapabilities: hasOperandTimingMode, microarchMiscControl: operandTimingModeOn},
		"off":                {archCapabilities: hasOperandTimingMode, microarchMiscControl: ^uint64(operandTimingModeOn)},
	} {
		require.Equal(t, "mode", want, operandTiming(r))
	}
	require.Equal(t, "mode that exists and cannot be read", unreadable, operandTiming(registers{archCapabilities: hasOperandTimingMode}))
	require.Equal(t, "another vendor's", "this vendor has none", OperandIndependentTiming("AuthenticAMD", 0))
}
