package batch

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// Identity distinguishes blocks that must be measured separately: by their settings, as initial.Set writes them,
// and by their address, which matters only within a page and for rip-relative operands (profiler.Setup.At).
func Identity(code []byte, at *uint64, set string) string {
	id := string(binary.AppendUvarint(nil, uint64(len(code)))) + string(code) // the length delimits the code
	if at != nil && relative(code) {
		id += "@" + string(binary.LittleEndian.AppendUint16(nil, uint16(*at%layout.PageSize)))
	}
	if set != "" {
		id += "\x00" + set
	}
	return id
}

func relative(code []byte) bool {
	for len(code) > 0 {
		s, err := asm.StepOver(code)
		if err != nil {
			return false
		}
		if s.RIPDisp > 0 {
			return true
		}
		code = code[s.Length:]
	}
	return false
}
