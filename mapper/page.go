// Package mapper has the rules by which a block is given memory: the method of the BHive paper (IISWC 2019, section 3.1).
//
// A block's bytes do not say which memory its program had. So the block is run, and at each access to a page that is not
// there the page is mapped onto a frame, a physical page, and the run starts over with registers, flags and memory as at
// first, until it comes to its end. A [Page] is a step of this: an address, its frame, and the instruction that asked for
// it. All pages share one frame unless that disturbs the block. A fault that no page would help rejects the block.
//
// Where the block stands and what its registers hold at first is free, and decides whether its accesses are aligned.
// [Place] gives rip-relative operands places as a program would. [Mover] moves registers so that accesses do not cross
// cache lines, fault for their alignment, or alias.
//
// The rules are pure: any harness can use them. Package internal/mapping carries them out in the child of package profiler,
// whose results list the pages.
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
	Fault uint64 `json:"fault"`       // the address that it asked for
	Copy  int    `json:"-"`           // of the block, that the instruction stands in
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
