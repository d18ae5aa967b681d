package asm

import "testing"

// The tables are text; this is where a slip in them shows.
func TestTablesParse(t *testing.T) {
	for _, err := range tables().errs {
		t.Error(err)
	}
	for name := range refusals {
		if !tabled(name) {
			t.Errorf("refusals name %q, which no table holds", name)
		}
	}
}

func tabled(name string) bool {
	for _, maps := range tables().forms {
		for _, opcodes := range maps {
			for _, forms := range opcodes {
				for _, f := range forms {
					if f.name == name {
						return true
					}
				}
			}
		}
	}
	return false
}
