package profiler

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// placed is a block whose rip-relative operands point to where in a page they would if it stood
// at an address of its program. A block is measured as if at layout.Home, the start of a page, so
// the address within a page is added to each displacement; constants that a program keeps aligned
// would else be misaligned.
func placed(code []byte, at uint64) []byte {
	shift := int64(at % layout.PageSize)
	if shift == 0 {
		return code
	}
	insts, err := asm.Decode(code)
	if err != nil {
		return code // which the caller finds as well
	}
	code = slices.Clone(code)
	for i := range insts {
		if insts[i].RIPDisp == 0 {
			continue
		}
		field := code[insts[i].Offset+insts[i].RIPDisp:]
		if v := int64(int32(binary.LittleEndian.Uint32(field))) + shift; v <= math.MaxInt32 {
			binary.LittleEndian.PutUint32(field, uint32(v))
		}
	}
	return code
}

// asWritten names the instruction of a rejection as the user wrote it.
func asWritten(err error, code []byte, at uint64) {
	var r *verdict.Rejection
	if at%layout.PageSize == 0 || !errors.As(err, &r) || r.Inst == nil {
		return
	}
	if insts, err := asm.Decode(code); err == nil && r.Inst.Index < len(insts) {
		r.Inst = insts[r.Inst.Index].Verdict(r.Inst.Index)
	}
}
