// Package mapper has the rules by which a block is given memory: the method of the BHive paper (IISWC 2019, section 3.1).
//
// A block's bytes do not say which memory its program had. So the block runs, and each access to an unmapped page maps that page onto a frame (a
// physical page) and starts the run again with the initial registers, flags and memory, until a run completes. A [Page]
// is one step of this: an address, its frame, and the instruction that asked for it. All pages share one frame unless
// that disturbs the block. A fault that no page can resolve rejects the block.
//
// The block's address and initial registers are free, and decide whether its accesses are aligned. [Place] aligns
// rip-relative operands as a program would. [Mover] moves registers so that accesses do not cross cache lines, fault
// for their alignment, or alias.
//
// The rules are pure: any harness can use them. Package internal/mapping applies them in the profiler's child;
// results list the pages.
package mapper

import (
	"encoding/json"
	"fmt"
)

// Page is one virtual page of the block and the frame that it stands on.
type Page struct {
	Addr  uint64 `json:"address"`
	Frame int    `json:"frame"`
	Inst  int    `json:"instruction"` // the instruction that asked for it, from 0
	Fault uint64 `json:"fault"`       // the address that faulted
	Copy  int    `json:"-"`           // the copy of the block
}

// MarshalJSON writes addresses as hexadecimal text and counts instructions from 1, as a report does.
func (p Page) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Addr  string `json:"address"`
		Frame int    `json:"frame"`
		Inst  int    `json:"instruction"`
		Fault string `json:"fault"`
	}{fmt.Sprintf("%#x", p.Addr), p.Frame, p.Inst + 1, fmt.Sprintf("%#x", p.Fault)})
}
