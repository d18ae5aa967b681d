package host

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// Intel's model-specific registers of the data operand independent timing mode (Intel, "Data Operand Independent Timing
// Instruction Set Architecture (ISA) Guidance"): IA32_ARCH_CAPABILITIES tells in bit 12 whether the mode exists, and
// IA32_UARCH_MISC_CTL in bit 0 whether it is on. A core before Ice Lake has no such mode and behaves as if it were on.
const (
	archCapabilities     = 0x10a
	hasOperandTimingMode = 1 << 12
	microarchMiscControl = 0x1b01
	operandTimingModeOn  = 1 << 0
)

// OperandIndependentTiming describes the mode in which the manufacturer guarantees that certain instructions take the
// same time whatever their operands hold.
func OperandIndependentTiming(vendor string, cpu int) string {
	if vendor != "GenuineIntel" {
		return "this vendor has none"
	}
	file, err := os.Open(fmt.Sprintf("/dev/cpu/%d/msr", cpu)) // msr(4)
	if err != nil {
		return "unknown, since model-specific registers cannot be read"
	}
	defer file.Close()
	return operandTiming(file)
}

func operandTiming(registers io.ReaderAt) string {
	read := func(register int64) (uint64, error) {
		var word [8]byte
		_, err := registers.ReadAt(word[:], register)
		return binary.LittleEndian.Uint64(word[:]), err
	}
	capabilities, err := read(archCapabilities)
	if err != nil {
		return "unknown, since the model-specific register cannot be read: " + err.Error()
	}
	if capabilities&hasOperandTimingMode == 0 {
		return "this core has none"
	}
	switch control, err := read(microarchMiscControl); {
	case err != nil:
		return "unknown, since the model-specific register cannot be read: " + err.Error()
	case control&operandTimingModeOn != 0:
		return "on"
	}
	return "off"
}
