package extract

import (
	"encoding/binary"
	"slices"

	"github.com/bbprof/bbprof/asm"
)

// Compilers make a switch an indirect jump through a table in read-only memory. gcc and clang write,
// position-independent,
//
//	lea rB, [rip+table]; movsxd rT, dword ptr [rB+rI*4]; add rT, rB; jmp rT
//
// with 32-bit distances from the table's start, and otherwise
//
//	jmp qword ptr [rI*8+table]       or  mov rT, [rI*8+table]; jmp rT
//
// with addresses; Go uses lea and jmp qword ptr [rB+rI*8]. Hoisting may separate lea and jmp, so matching adjacent
// instructions fails. Instead, in a function with an indirect jump, every address named by such an instruction is
// tried as a table of distances and of addresses. Reading stops at the first entry that is not an instruction of
// this function, or at the next address that any function names. Other data fail at once.

// maxEntries bounds a table: CPython's interpreter has 256, generated parsers a few thousand.
const maxEntries = 1 << 14

func (w *walker) noteTable(at int, s asm.Step) {
	code := w.code[at : at+s.Length]
	switch {
	case s.RIPDisp >= 2 && code[s.RIPDisp-2] == 0x8d: // lea r, [rip+disp32]
		w.addTable(w.lo + uint64(at+s.Length) + signed32(code[s.RIPDisp:]))
	case s.Length >= 7:
		// ff /4 or 8b with mod 0, rm 4 and a SIB byte of scale 8 and no base: [index*8+disp32]
		op := code[s.Length-7:]
		if (op[0] == 0xff && op[1] == 0x24 || op[0] == 0x8b && op[1]&0xc7 == 0x04) && op[2]&0xc7 == 0xc5 {
			w.addTable(signed32(op[3:]))
		}
	}
}

func (w *walker) addTable(addr uint64) {
	if s := w.o.at(addr); s != nil && !s.executable {
		w.tables = append(w.tables, addr)
	}
}

func signed32(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

// jumpTables follows the entries of all tables, until they lead to no more.
func (w *walker) jumpTables() {
	for done := 0; w.indirect && w.limits != nil; {
		slices.Sort(w.tables)
		w.tables = slices.Compact(w.tables)
		if len(w.tables) == done {
			return
		}
		done = len(w.tables)
		for _, table := range slices.Clone(w.tables) {
			end := ^uint64(0)
			if i, _ := slices.BinarySearch(w.limits, table+1); i < len(w.limits) {
				end = w.limits[i]
			}
			if w.entries(table, end, 4) == 0 {
				w.entries(table, end, 8)
			}
		}
	}
}

// entries marks the targets in a table as leaders and returns their number.
func (w *walker) entries(table, end uint64, size int) int {
	n := 0
	for at := table; n < maxEntries && at < end; at += uint64(size) {
		v, ok := w.o.word(at, size)
		if !ok {
			break
		}
		to := v - w.lo
		if size == 4 {
			to = table + uint64(int64(int32(v))) - w.lo
		}
		if to >= uint64(len(w.code)) || w.marks[to]&markInside != 0 {
			break
		}
		if n == 0 && size == 4 && w.code[to] == 0 { // a distance to zeros: without this, data cuts a block of libLLVM
			break
		}
		w.lead(int(to))
		w.drain()
		n++
	}
	return n
}
