package asm

import (
	"encoding/hex"

	"github.com/bbprof/bbprof/verdict"
)

// Verdict names the instruction for a rejection; index is its place in the block, from 0.
func (in *Inst) Verdict(index int) *verdict.Inst {
	return &verdict.Inst{Index: index, Offset: in.Offset, Text: in.Text(), Hex: hex.EncodeToString(in.Bytes)}
}
