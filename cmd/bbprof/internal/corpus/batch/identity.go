package batch

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// Identity distinguishes blocks that have to be measured separately: by what is set, as initial.Set writes it,
// and by where a block stands, which matters within a page, and only for rip-relative operands
// (profiler.Setup.At).
func Identity(code []byte, at *uint64, set string) string {
	id := string(binary.AppendUvarint(nil, uint64(len(code)))) + string(code) // what follows is no code
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
