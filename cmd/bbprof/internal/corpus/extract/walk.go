package extract

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Marks of a function's bytes.
const (
	markStart  = 1 << iota // an instruction starts here
	markInside             // its further bytes
	markLeader             // a block starts here
	markPads               // a nop or int3
	markRepeat             // a repeated string instruction
)

// longest is the length of the longest instruction (Intel SDM vol. 2, 2.3.11).
const longest = 15

// A walker finds the instructions of one function at a time. It follows control flow from the entry and every
// branch target, which reaches only instructions. Bytes that merely follow an unconditional transfer count as code
// if they decode as code from end to end. All slices have one element per byte of the function.
type walker struct {
	o    *object
	code []byte
	lo   uint64

	marks  []uint8
	length []uint8
	flow   []asm.Flow

	work      []int    // offsets to follow
	tables    []uint64 // possible starts of jump tables
	limits    []uint64 // possible table starts of all functions, sorted; nil: find no tables
	indirect  bool     // met an indirect jump
	cut       int      // bytes from here on are omitted
	overlaps  int
	outside   func(target uint64) // called with the target of each direct branch out of the function
	unclaimed int                 // bytes not taken for code
	read      decodedRange
}

// decodedRange is a range that decodes as code, with its instruction starts. Its suffixes then do, too: a function of
// thousands of stubs, as in libGLdispatch, is not decoded again after each stub.
type decodedRange struct {
	from   int
	starts []bool
}

func (r decodedRange) covers(from, end int) bool {
	size := len(r.starts)
	return from >= r.from && from < r.from+size && r.starts[from-r.from] && (end == r.from+size || end < r.from+size && r.starts[end-r.from])
}

// walk finds a function's instructions. entries are offsets reached from elsewhere, known are offsets of executed
// instructions.
func (w *walker) walk(f *function, entries, known []int) {
	w.code, w.lo = f.bytes(), f.lo
	n := len(w.code)
	w.marks, w.length, w.flow = grown(w.marks, n), grown(w.length, n), grown(w.flow, n)
	w.tables, w.work = w.tables[:0], w.work[:0]
	w.indirect, w.cut, w.overlaps, w.unclaimed, w.read = false, n, 0, 0, decodedRange{}
	if n == 0 {
		return
	}
	w.lead(0)
	for _, at := range entries {
		w.lead(at)
	}
	w.drain()
	for _, at := range known {
		if w.marks[at]&(markStart|markInside) == 0 {
			w.lead(at)
			w.drain()
		}
	}
	w.jumpTables()
	w.gaps()
}

// grown returns n zeroed elements, in the old slice's memory if that suffices.
func grown[T any](old []T, n int) []T {
	if cap(old) < n {
		return make([]T, n)
	}
	old = old[:n]
	clear(old)
	return old
}

func (w *walker) lead(at int) {
	if at >= len(w.code) || w.marks[at]&markLeader != 0 {
		return
	}
	if w.marks[at]&markInside != 0 { // for example, a jump past a lock prefix
		w.overlaps++
		return
	}
	w.marks[at] |= markLeader
	w.work = append(w.work, at)
}

func (w *walker) drain() {
	for len(w.work) > 0 {
		at := w.work[len(w.work)-1]
		w.work = w.work[:len(w.work)-1]
		w.follow(at)
	}
}

// follow decodes from an offset until control flow ends or meets decoded code. At an invalid instruction the
// function is omitted from the last transfer on: after a call that never returns there need not be code.
func (w *walker) follow(at int) {
	run := at
	for at < len(w.code) {
		if w.marks[at]&markStart != 0 {
			return
		}
		s, err := asm.StepOver(w.code[at:min(at+longest, len(w.code))])
		if err != nil {
			w.cut = min(w.cut, run)
			return
		}
		if !w.claim(at, s) {
			w.overlaps++
			return
		}
		next := at + s.Length
		w.noteTable(at, s)
		switch s.Flow {
		case asm.FlowBranch, asm.FlowJump, asm.FlowCall:
			w.target(next, s)
		case asm.FlowJumpIndirect:
			w.indirect = true
		}
		if s.Flow.Ends() {
			return
		}
		if s.Flow != asm.FlowNext && next < len(w.code) {
			w.marks[next] |= markLeader
			run = next
		}
		at = next
	}
}

func (w *walker) target(next int, s asm.Step) {
	to := int64(next) + s.Target
	if to >= 0 && to < int64(len(w.code)) {
		w.lead(int(to))
	} else if w.outside != nil {
		w.outside(w.lo + uint64(to))
	}
}

// claim marks an instruction's bytes, unless another instruction has some of them.
func (w *walker) claim(at int, s asm.Step) bool {
	for i := at; i < at+s.Length; i++ {
		if w.marks[i]&(markStart|markInside) != 0 {
			return false
		}
	}
	w.marks[at] |= markStart
	for i := at + 1; i < at+s.Length; i++ {
		if w.marks[i]&markLeader != 0 { // was queued, and is now known to be inside an instruction
			w.marks[i] &^= markLeader
			w.overlaps++
		}
		w.marks[i] |= markInside
	}
	if s.Endbr {
		w.marks[at] |= markLeader
	}
	if s.Pads {
		w.marks[at] |= markPads
	}
	if s.Repeats {
		w.marks[at] |= markRepeat
	}
	w.length[at], w.flow[at] = uint8(s.Length), s.Flow
	return true
}

// gaps examines unreachable bytes: padding, data, or targets of indirect jumps.
func (w *walker) gaps() {
	for at := 0; at < w.cut; {
		if w.length[at] != 0 {
			at += int(w.length[at])
			continue
		}
		end := at
		for end < len(w.code) && w.marks[end]&(markStart|markInside) == 0 {
			end++
		}
		if end == at { // bytes of an overlapping instruction
			at++
			continue
		}
		from := w.skipPadding(at, end)
		switch {
		case from == end:
		case w.read.covers(from, end), w.readsAsCode(from, end):
			w.lead(from)
			w.drain()
			w.jumpTables()
		default:
			w.unclaimed += end - from
		}
		if w.length[at] == 0 {
			at = max(from, at+1)
			for at < end && w.length[at] == 0 {
				at++
			}
		}
	}
}

func (w *walker) skipPadding(at, end int) int {
	if isZero(w.code[at:end]) {
		return end
	}
	for at < end {
		s, err := asm.StepOver(w.code[at:min(at+longest, end)])
		if err != nil || !s.Pads {
			return at
		}
		at += s.Length
	}
	return end
}

// readsAsCode reports whether bytes decode from end to end into user-mode instructions, with no direct branch into
// the middle of one.
func (w *walker) readsAsCode(from, end int) bool {
	starts := make([]bool, end-from)
	var targets []int64
	last := asm.FlowNext
	for at := from; at < end; {
		s, err := asm.StepOver(w.code[at:min(at+longest, end)])
		if err != nil || s.Length >= 2 && w.code[at] == 0 && w.code[at+1] == 0 { // add [rax], al: zeros are data
			return false
		}
		insts, err := asm.Decode(w.code[at : at+s.Length])
		if err != nil || privileged(insts) {
			return false
		}
		starts[at-from] = true
		next := at + s.Length
		switch s.Flow {
		case asm.FlowBranch, asm.FlowJump, asm.FlowCall:
			targets = append(targets, int64(next)+s.Target)
		}
		at = next
		last = s.Flow
		if s.Flow.Ends() {
			at = w.skipPadding(at, end)
		}
	}
	if end == len(w.code) && last == asm.FlowNext { // control would run off the function's end
		return false
	}
	for _, to := range targets {
		switch {
		case to < 0 || to >= int64(len(w.code)):
			if w.o.code(w.lo+uint64(to)) == nil {
				return false
			}
		case to >= int64(from) && to < int64(end):
			if !starts[to-int64(from)] {
				return false
			}
		case w.marks[to]&markInside != 0:
			return false
		}
	}
	w.read = decodedRange{from, starts}
	return true
}

// privileged reports whether an instruction needs ring 0 or an I/O permission. It excludes hlt, which
// the C library puts after calls that must not return.
func privileged(insts []asm.Inst) bool {
	r := asm.Refuse(insts)
	return r != nil && r.Reason == verdict.Privileged && insts[0].Mnemonic != "hlt"
}
