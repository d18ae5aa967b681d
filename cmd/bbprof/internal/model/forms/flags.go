package forms

import "github.com/bbprof/bbprof/asm"

// Condition returns a condition that reads a flag of the set, as in cmovcc, else "".
func Condition(f asm.Flags) string {
	switch {
	case f&asm.Carry != 0:
		return "b"
	case f&asm.Zero != 0:
		return "e"
	case f&asm.Overflow != 0:
		return "o"
	case f&asm.Sign != 0:
		return "s"
	case f&asm.Parity != 0:
		return "p"
	}
	return ""
}
