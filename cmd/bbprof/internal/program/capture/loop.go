package capture

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/internal/mapping"
)

// A loop is stepped in a copy of the program, while the program itself stands before it. First another copy runs a copy of the loop's code that
// counts arrivals at the header until control leaves; if they are too many to be stepped, the visit is taken at one of the last of them.

const (
	// nearSteps is about how many instructions of a long loop are stepped: less than mostSteps because iterations differ, and few because their
	// data should fit L1D: of 174 visits of bzip2's loops 26 did not with twice as many, 17 with these.
	nearSteps = mostSteps / 4
	// closer is by how much the number of iterations is reduced if they have more instructions than that.
	closer = 4
)

// mostTime bounds how long a copy runs. A test has less.
var mostTime = 5 * time.Second

// take takes a visit of a block, or of a loop, at whose first instruction a thread stands. inside: the program has not left the loop.
func (k *session) take(w *site, thread int) (v *Visit, inside bool, why string, err error) {
	if w.Entry == nil {
		v, why, err = k.follow(k.Process, w, thread)
		return v, false, why, err
	}
	if w.endless {
		return nil, true, tooLong, nil
	}
	v, why, err = k.last(w, thread)
	if fault := (*debuggee.Fault)(nil); errors.As(err, &fault) { // it cannot be copied
		v, why, err = k.follow(k.Process, w, thread)
		return v, v == nil, why, err
	}
	return v, true, why, err
}

// last takes a visit of a loop from the last of its iterations that can be stepped on.
func (k *session) last(w *site, thread int) (v *Visit, why string, err error) {
	c, left, why, err := k.ahead(w, thread, math.MaxInt64)
	if c != nil {
		c.Close()
	}
	if err == nil && left == 1 {
		return nil, tooShort, nil
	}
	for take := min(left, max(1, uint64(nearSteps/w.each))); v == nil && take > 0 && err == nil; take /= closer {
		if c, _, why, err = k.ahead(w, thread, left-take); c != nil {
			if v, why, err = k.follow(c, w, c.ID()); v != nil {
				v.Skipped, w.each = left-take, float64(v.Steps)/float64(take)
			}
			c.Close()
			if shorter := max(1, take/mapping.ShortShare); v != nil && v.Steps*int(take-shorter)/int(take) < mapping.LeastSteps {
				return nil, tooShort, nil
			}
		}
	}
	return v, why, err
}

const (
	tooLong  = "the loop goes on for more than 5 s"
	tooShort = "the loop ends too soon to tell what an iteration takes"
)

// ahead returns a copy of the program after so many more arrivals at the loop's header, or at the loop's end if that comes before, with the
// number of arrivals from this one on.
func (k *session) ahead(w *site, thread int, more uint64) (c *debuggee.Process, arrivals uint64, why string, err error) {
	if c, err = k.Fork(thread); err != nil || more == 0 {
		return c, 1, "", err
	}
	inTime := time.AfterFunc(mostTime, c.Kill)
	at, err := c.RunCopy(w.at, len(w.counting(w.at, 0)), countingCode, func(at uint64) []byte { return w.counting(at, more+1) })
	if !inTime.Stop() {
		w.endless, why, err = true, tooLong, nil
	}
	if why == "" && err == nil {
		arrivals, err = c.Word(at + 8)
	}
	if why != "" || err != nil {
		c.Close()
		return nil, 0, why, err
	}
	return c, more + 1 - arrivals, "", nil
}

// countingCode is where counting's code begins, past rcx and the counter: stores to a page with code are as slow as a stop.
const countingCode = pageSize

// counting lays out a copy of the loop at an address. It counts arrivals at the header down, from the first on, and stops at 0 and where control
// leaves the loop.
func (w *site) counting(at, arrivals uint64) []byte {
	places := make([]uint64, len(w.insts))
	var e *asm.Emitter
	for range 2 { // the first time without the places
		e = asm.NewEmitter(at)
		data := make([]byte, countingCode)
		binary.LittleEndian.PutUint64(data[8:], arrivals)
		e.Raw(data...)
		header := e.PC()
		e.Store(at, asm.RCX)
		e.Load(asm.RCX, at+8)
		e.Raw(0x48, 0x8d, 0x49, 0xff) // lea rcx, [rcx-1]: leaves the flags alone
		e.Store(at+8, asm.RCX)
		e.Raw(0xe3, 12) // jrcxz past the next two
		e.Load(asm.RCX, at)
		e.Jmp(places[w.first])
		e.Load(asm.RCX, at)
		exit := e.PC()
		e.Int3()
		to := func(addr uint64) uint64 {
			switch i, inside := w.instAt(addr); {
			case !inside:
				return exit
			case i == w.first:
				return header
			default:
				return places[i]
			}
		}
		for i := range w.insts {
			in := &w.insts[i]
			places[i] = e.PC()
			branch, branches := asm.TrailingBranch(w.insts[i : i+1])
			if branches {
				branch.EmitFar(e, to(w.base+uint64(branch.Target)))
			} else {
				e.Moved(in.RIPOperand(w.base+uint64(in.Offset)), in.RIPDisp, in.Bytes...)
			}
			if next, inside := w.instAt(w.after(in)); !inside || next != i+1 || next == w.first {
				e.Jmp(to(w.after(in)))
			}
		}
	}
	return e.Bytes()
}
