package explain

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

var hypotheses = []struct {
	name string
	find func(*question) (test, error)
}{
	{"4K aliasing", (*question).alias4K},
	{"frame sharing", (*question).frameSharing},
	{"line splits", (*question).splits},
	{"code alignment", (*question).codeAlignment},
	{"rename phase", (*question).renamePhase},
	{"subnormals", (*question).subnormals},
	{"L1I residency", (*question).l1i},
	{"op cache residency", (*question).opCache},
}

func absent(format string, args ...any) test {
	return test{Finding: experiment.Finding{Outcome: experiment.Absent, Here: fmt.Sprintf(format, args...)}}
}

func untested(here, why string) test {
	return test{Finding: experiment.Finding{Outcome: experiment.Untested, Here: here, Change: why}}
}

// framesEach gives each page a frame, as far as any L1D has ways.
const framesEach = 16

// alias4K moves one pointer by whole lines until no load aliases a store, so that all else about the addresses stays.
func (q *question) alias4K() (test, error) {
	p := *q.base.Predicted
	if p.Alias4K == 0 {
		return absent("no load meets a store in the low 12 bits of its address alone"), nil
	}
	here := fmt.Sprintf("per iteration %.3g of its loads meet a store in the low 12 bits alone, %s", p.Alias4K, back(p.AliasStores))
	want := p
	want.Alias4K, want.AliasStores = 0, 0
	moved, what, err := q.move(want, [][]asm.Reg{}, []int{3 * 64, 13 * 64, 27 * 64})
	if err != nil || what == "" {
		return untested(here, "no pointer can be moved so that this ends and nothing else changes"), err
	}
	return change(here, what, q.setup, moved), nil
}

func back(stores int) string {
	if stores == 1 {
		return "the nearest the one before"
	}
	return fmt.Sprintf("the nearest %d stores before", stores)
}

// splits moves all pointers together, which keeps their distances, or else one of them.
func (q *question) splits() (test, error) {
	p := *q.base.Predicted
	if p.Splits == 0 {
		return absent("no access crosses a line"), nil
	}
	here := fmt.Sprintf("per iteration %.3g of its accesses cross a line", p.Splits)
	want := p
	want.Splits, want.PageSplits = 0, 0
	var bytes []int
	for step := 32; step > 0; step /= 2 { // larger steps keep more alignments
		for n := step; n < 64; n += 2 * step {
			bytes = append(bytes, n)
		}
	}
	moved, what, err := q.move(want, [][]asm.Reg{q.pointers()}, bytes)
	switch {
	case err != nil:
		return test{}, err
	case what != "":
		return change(here, what, q.setup, moved), nil
	case p.AliasFrame > 0 && q.base.Pages <= framesEach:
		return q.splitsApart(here)
	}
	return untested(here, "the pointers cannot be moved so that this ends and nothing else changes"), nil
}

// splitsApart uses a frame for each page in both set-ups: if pages share a frame, moving a pointer changes which lines
// they share.
func (q *question) splitsApart(here string) (test, error) {
	apart := *q
	apart.setup.Frames = framesEach
	r, err := q.measure(apart.setup)
	if err != nil || r.Status != profiler.OK || r.Predicted == nil || r.Predicted.AliasFrame > 0 {
		return untested(here, "the pointers cannot be moved so that this ends and nothing else changes"), err
	}
	apart.base = r
	t, err := apart.splits()
	if t.Outcome == "" {
		t.Change += ", with a frame for each page in both"
	}
	return t, err
}

func (q *question) pointers() []asm.Reg {
	var regs []asm.Reg
	for i := range q.insts {
		for _, m := range q.insts[i].Mem {
			for _, r := range []asm.Register{m.Base, m.Index} {
				if n, ok := r.GPR(); ok && !slices.Contains(regs, asm.Reg(n)) {
					regs = append(regs, asm.Reg(n))
				}
			}
		}
	}
	slices.Sort(regs)
	return regs
}

// move finds registers to add bytes to so that the addresses match want: first the given sets, then single pointers.
// change is empty if there are none.
func (q *question) move(want invariants.Prediction, sets [][]asm.Reg, bytes []int) (s profiler.Setup, change string, err error) {
	for _, r := range q.pointers() {
		sets = append(sets, []asm.Reg{r})
	}
	for _, set := range sets {
		for _, n := range bytes {
			s = q.withInit(func(init *initial.State) {
				for _, r := range set {
					init.GPR[r] += uint64(n)
				}
			})
			r, err := q.measure(s)
			if err != nil {
				return s, "", err
			}
			if r.Status == profiler.OK && r.Predicted != nil && same(*r.Predicted, want) {
				return s, fmt.Sprintf("add %d to %s", n, names(set)), nil
			}
		}
	}
	return s, "", nil
}

// same compares what addresses decide, not what the image size decides.
func same(a, b invariants.Prediction) bool {
	a.L1IMisses, b.L1IMisses, a.RunL1IMisses, b.RunL1IMisses = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}

func names(regs []asm.Reg) string {
	s := ""
	for i, r := range regs {
		if i > 0 {
			s += ", "
		}
		s += r.String()
	}
	return s
}

func (q *question) withInit(change func(*initial.State)) profiler.Setup {
	s, init := q.setup, q.base.Init
	change(&init)
	s.Init = &init
	return s
}

func (q *question) frameSharing() (test, error) {
	p := *q.base.Predicted
	switch {
	case p.AliasFrame == 0:
		return absent("no line of a frame is used through two pages"), nil
	case q.base.Pages > framesEach:
		return untested(fmt.Sprintf("%d pages share %d frames", q.base.Pages, q.base.Frames), "L1D has no way for each page"), nil
	}
	apart := q.setup
	apart.Frames = framesEach
	r, err := q.measure(apart)
	if err != nil {
		return test{}, err
	}
	here := fmt.Sprintf("per iteration %.3g of its accesses reach a line of a frame by another page than the one before", p.AliasFrame)
	what := fmt.Sprintf("a frame for each of %d pages", q.base.Pages)
	if r.Predicted != nil && r.Predicted.Alias4K > p.Alias4K {
		what += fmt.Sprintf(", which turns %.3g of its loads into 4K aliasing ones", r.Predicted.Alias4K-p.Alias4K)
	}
	return change(here, what, q.setup, apart), nil
}

// codeAlignment measures other alignments singly, then tests the one that differed most against the set-up's, with new
// measurements, because the selection alone would bias the difference. The number of nops before the copies is
// constant, since it shifts the rename groups.
func (q *question) codeAlignment() (test, error) {
	const step = 4
	base, farthest, difference := *q.setup.CodeOffset, 0, -1.0
	with := q.at(base, leastNops)
	here, err := q.measure(with)
	if err != nil {
		return test{}, err
	}
	for d := step; d < 64; d += step {
		r, err := q.measure(q.at((base+d)%layout.PageSize, leastNops))
		if err != nil {
			return test{}, err
		}
		if r.Status != profiler.OK {
			continue
		}
		if off := math.Abs(r.Cycles - here.Cycles); off > difference {
			farthest, difference = (base+d)%layout.PageSize, off
		}
	}
	stands := fmt.Sprintf("the first copy stands at byte %d of a page", base)
	if difference < 0 {
		return untested(stands, "no other place was measured"), nil
	}
	return change(stands, fmt.Sprintf("byte %d, of 15 others the one that differs most", farthest), with, q.at(farthest, leastNops)), nil
}

// at places the first copy at a byte of a page, after some nops.
func (q *question) at(offset, nops int) profiler.Setup {
	s := q.setup
	s.CodeOffset, s.LeadNops = &offset, nops
	return s
}

func (q *question) subnormals() (test, error) {
	if q.base.Init.MXCSR != initial.DefaultMXCSR {
		return absent("subnormals count as zero"), nil
	}
	if !slices.ContainsFunc(q.insts, func(in asm.Inst) bool { return asm.StateOf([]asm.Inst{in}).MXCSRSticky }) {
		return absent("no instruction computes with floating-point numbers"), nil
	}
	flushed := q.withInit(func(init *initial.State) { init.MXCSR = initial.Paper().MXCSR })
	flushed.NoFTZ = false
	return change("subnormals are computed", "let them count as zero", q.setup, flushed), nil
}

// l1i uses as many copies as L1I holds, all from the decoders. They serve what exceeds L1I anyway, so the op cache does
// not change.
func (q *question) l1i() (test, error) {
	if q.base.Predicted.L1IMisses == 0 {
		return absent("%d and %d copies of %d bytes fit L1I", q.base.UnrollShort, q.base.UnrollLong, len(q.code)), nil
	}
	here := fmt.Sprintf("%d copies of %d bytes exceed the %d bytes of L1I", q.base.UnrollLong, len(q.code), q.frontEnd().L1I)
	fewer, ok := q.factors().Within(q.frontEnd().L1I / 2 / len(q.code))
	if !ok {
		return untested(here, "no two numbers of copies fit"), nil
	}
	with, without := q.setup, q.setup
	with.FrontEnd, without.FrontEnd, without.Unroll = profiler.Decode, profiler.Decode, &fewer
	return change(here, fmt.Sprintf("%d and %d copies, both from the decoders", fewer.Short, fewer.Long), with, without), nil
}

// opCache uses as many copies as the op cache holds, once L1I holds them.
func (q *question) opCache() (test, error) {
	fewer, fits, err := unroll.Choose(q.insts, q.frontEnd())
	if err != nil {
		return test{}, err
	}
	if b := q.base.Branch; b != nil && b.As == profiler.Taken {
		return absent("a loop of %d bytes stays in it", len(q.code)), nil
	}
	if q.base.PastLead {
		return absent("%d copies are what uses up the front end's lead", q.base.UnrollLong), nil
	}
	if q.base.UnrollLong <= fewer.Long {
		return absent("%d copies are as many as the op cache is given", q.base.UnrollLong), nil
	}
	here := fmt.Sprintf("%d copies exceed the share of the op cache that holds %d", q.base.UnrollLong, fewer.Long)
	if !fits {
		return untested(here, "not even the fewest copies fit"), nil
	}
	with, without := q.setup, q.setup
	without.Unroll = &fewer
	if q.base.Predicted.L1IMisses > 0 {
		most, ok := q.factors().Within(q.frontEnd().L1I / 2 / len(q.code))
		if !ok {
			return untested(here, "no two numbers of copies fit L1I"), nil
		}
		with.Unroll, with.FrontEnd = &most, profiler.Decode
	}
	return change(here, fmt.Sprintf("%d and %d copies", fewer.Short, fewer.Long), with, without), nil
}

func (q *question) frontEnd() unroll.FrontEnd { return q.base.Host.CPU.FrontEnd }

func (q *question) factors() unroll.Factors {
	return unroll.Factors{Short: q.base.UnrollShort, Long: q.base.UnrollLong}
}
