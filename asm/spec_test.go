package asm

import "testing"

// The tables are text; this is where a slip in them shows.
func TestTablesParse(t *testing.T) {
	for _, err := range tables().errs {
		t.Error(err)
	}
	// Nothing restores a segment register, and only ring 0 has the others.
	eachForm(func(_ encoding, f *form) {
		for _, o := range f.ops {
			segment := o.kind == opSeg || o.name == "fs" || o.name == "gs"
			if (o.kind == opCR || o.kind == opDR || segment && o.access&accWrite != 0) && f.refusal.reason == "" {
				t.Errorf("%s of a register that no block may change is not refused", f.name)
			}
		}
	})
}
