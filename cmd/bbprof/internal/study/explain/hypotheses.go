package explain

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/rewrite"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

var hypotheses = []struct {
	name string
	find func(*question) test
}{
	{"4K aliasing", (*question).alias4K},
	{"frame sharing", (*question).frameSharing},
	{"store forwarding", (*question).forwarding},
	{"equal addresses", (*question).equalAddresses},
	{"line splits", (*question).splits},
	{"code alignment", (*question).codeAlignment},
	{"rename phase", (*question).renamePhase},
	{"subnormals", (*question).subnormals},
	{"SSE and AVX mixed", (*question).mixed},
	{"operand values", (*question).operandValues},
	{"L1I residency", (*question).l1i},
	{"op cache residency", (*question).opCache},
}

func absent(format string, args ...any) test {
	return test{Finding: experiment.Finding{Outcome: experiment.Absent, Here: fmt.Sprintf(format, args...)}}
}

func untested(here, why string) test {
	return test{Finding: experiment.Finding{Outcome: experiment.Untested, Here: here, Change: why}}
}

// FramesEach gives each page a frame, as far as any L1D has ways.
const FramesEach = 16

// alias4K moves one pointer by whole lines until no load aliases a store, so that all else about the addresses stays.
func (q *question) alias4K() test {
	p := *q.base.Predicted
	if p.Alias4K == 0 {
		return absent("no load meets a store in the low 12 bits of its address alone")
	}
	here := fmt.Sprintf("per iteration %.3g of its loads meet a store in the low 12 bits alone, %s", p.Alias4K, back(p.AliasStores))
	want := p
	want.Alias4K, want.AliasStores = 0, 0
	lines := []int{3 * 64, 13 * 64, 27 * 64}
	if moved, what := q.move(want, nil, lines); what != "" {
		return change(here, what, q.setup, moved)
	}
	if code, what := q.displace(want, lines); what != "" {
		t := change(here, what, q.setup, q.setup)
		t.Without.code = code
		return t
	}
	return untested(here, "no pointer and no load can be moved so that this ends and nothing else changes")
}

// displace finds a load to move so that the addresses match want.
func (q *question) displace(want invariants.Prediction, bytes []int) (code, what string) {
	for i := range q.insts {
		if reads, writes := q.insts[i].Accesses(); !reads || writes {
			continue
		}
		for _, n := range bytes {
			moved := rewrite.Displaced(&q.insts[i], int64(n))
			if moved == nil {
				break
			}
			code := string(rewrite.Change{Replace: map[int][]byte{i: moved}}.Apply(q.insts))
			if r := q.measureCode(code, q.setup); r.Status == profiler.OK && r.Predicted != nil && same(*r.Predicted, want) {
				return code, fmt.Sprintf("%d more in the address of instruction %d", n, i+1)
			}
		}
	}
	return "", ""
}

func back(stores int) string {
	if stores == 1 {
		return "the nearest the one before"
	}
	return fmt.Sprintf("the nearest %d stores before", stores)
}

// splits moves all pointers together, which keeps their distances, or else one of them.
func (q *question) splits() test {
	p := *q.base.Predicted
	if p.Splits == 0 {
		return absent("no access crosses a line")
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
	moved, what := q.move(want, [][]asm.Reg{q.pointers()}, bytes)
	switch {
	case what != "":
		return change(here, what, q.setup, moved)
	case p.AliasFrame > 0 && q.base.Pages <= FramesEach:
		return q.splitsApart(here)
	}
	return untested(here, pointersStay)
}

const pointersStay = "the pointers cannot be moved so that this ends and nothing else changes"

// splitsApart uses a frame for each page in both set-ups: if pages share a frame, moving a pointer changes which lines
// they share.
func (q *question) splitsApart(here string) test {
	apart := *q
	apart.setup.Frames = FramesEach
	apart.base = q.measure(apart.setup)
	if p := apart.base.Predicted; apart.base.Status != profiler.OK || p == nil || p.AliasFrame > 0 {
		return untested(here, pointersStay)
	}
	t := apart.splits()
	if q.err = apart.err; t.Outcome == "" {
		t.Change += ", with a frame for each page in both"
	}
	return t
}

func (q *question) pointers() []asm.Reg {
	var used uint16
	for i := range q.insts {
		for _, m := range q.insts[i].Mem {
			used |= m.GPRs()
		}
	}
	var regs []asm.Reg
	for r := asm.RAX; r <= asm.R15; r++ {
		if used>>r&1 != 0 {
			regs = append(regs, r)
		}
	}
	return regs
}

// move finds registers to add bytes to so that the addresses match want: first the given sets, then single pointers.
// change is empty if there are none.
func (q *question) move(want invariants.Prediction, sets [][]asm.Reg, bytes []int) (s profiler.Setup, change string) {
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
			if r := q.measure(s); r.Status == profiler.OK && r.Predicted != nil && same(*r.Predicted, want) {
				return s, fmt.Sprintf("add %d to %s", n, names(set))
			}
		}
	}
	return s, ""
}

// same compares what addresses decide, not what the image size decides.
func same(a, b invariants.Prediction) bool {
	a.L1IMisses, b.L1IMisses, a.RunL1IMisses, b.RunL1IMisses = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}

func names(regs []asm.Reg) string {
	var all []string
	for _, r := range regs {
		all = append(all, r.String())
	}
	return strings.Join(all, ", ")
}

func (q *question) withInit(change func(*initial.State)) profiler.Setup {
	s, init := q.setup, q.base.Init
	change(&init)
	s.Init = &init
	return s
}

func (q *question) frameSharing() test {
	p := *q.base.Predicted
	switch {
	case p.AliasFrame == 0:
		return absent("no line of a frame is used through two pages")
	case q.base.Pages > FramesEach:
		return untested(fmt.Sprintf("%d pages share %d frames", q.base.Pages, q.base.Frames), "L1D has no way for each page")
	}
	apart := q.setup
	apart.Frames = FramesEach
	r := q.measure(apart)
	here := fmt.Sprintf("per iteration %.3g of its accesses reach a line of a frame by another page than the one before", p.AliasFrame)
	what := fmt.Sprintf("a frame for each of %d pages", q.base.Pages)
	if r.Predicted != nil && r.Predicted.Alias4K > p.Alias4K {
		what += fmt.Sprintf(", which turns %.3g of its loads into 4K aliasing ones", r.Predicted.Alias4K-p.Alias4K)
	}
	return change(here, what, q.setup, apart)
}

// codeAlignment measures other alignments singly, then tests the one that differed most against the set-up's, with new
// measurements, because the selection alone would bias the difference. The number of nops before the copies is
// constant, since it shifts the rename groups.
func (q *question) codeAlignment() test {
	const step = 4
	base, farthest, difference := *q.setup.CodeOffset, 0, -1.0
	with := q.at(base, leastNops)
	here := q.measure(with)
	for d := step; d < 64; d += step {
		at := (base + d) % layout.PageSize
		r := q.measure(q.at(at, leastNops))
		if off := math.Abs(r.Cycles - here.Cycles); r.Status == profiler.OK && off > difference {
			farthest, difference = at, off
		}
	}
	stands := fmt.Sprintf("the first copy stands at byte %d of a page", base)
	if difference < 0 {
		return untested(stands, "no other place was measured")
	}
	return change(stands, fmt.Sprintf("byte %d, of 15 others the one that differs most", farthest), with, q.at(farthest, leastNops))
}

// at places the first copy at a byte of a page, after some nops.
func (q *question) at(offset, nops int) profiler.Setup {
	s := q.setup
	s.CodeOffset, s.LeadNops = &offset, nops
	return s
}

func (q *question) subnormals() test {
	if q.base.Init.MXCSR != initial.DefaultMXCSR {
		return absent("subnormals count as zero")
	}
	if !slices.ContainsFunc(q.insts, func(in asm.Inst) bool { return asm.StateOf([]asm.Inst{in}).MXCSRSticky }) {
		return absent("no instruction computes with floating-point numbers")
	}
	flushed := q.withInit(func(init *initial.State) { init.MXCSR = initial.Paper().MXCSR })
	flushed.NoFTZ = false
	return change("subnormals are computed", "let them count as zero", q.setup, flushed)
}

// l1i uses as many copies as L1I holds, all from the decoders. They serve what exceeds L1I anyway, so the op cache does
// not change.
func (q *question) l1i() test {
	if q.base.Predicted.L1IMisses == 0 {
		return absent("%d and %d copies of %d bytes fit L1I", q.base.UnrollShort, q.base.UnrollLong, len(q.code))
	}
	here := fmt.Sprintf("%d copies of %d bytes exceed the %d bytes of L1I", q.base.UnrollLong, len(q.code), q.frontEnd().L1I)
	fewer, ok := q.factors().Within(q.frontEnd().L1I / 2 / len(q.code))
	if !ok {
		return untested(here, "no two numbers of copies fit")
	}
	with, without := q.setup, q.setup
	with.FrontEnd, without.FrontEnd, without.Unroll = profiler.Decode, profiler.Decode, &fewer
	return change(here, fmt.Sprintf("%d and %d copies, both from the decoders", fewer.Short, fewer.Long), with, without)
}

// opCache uses as many copies as the op cache holds, once L1I holds them.
func (q *question) opCache() test {
	fewer, fits, err := unroll.Choose(q.insts, q.frontEnd())
	if err != nil {
		q.err = cmp.Or(q.err, err)
		return test{}
	}
	if b := q.base.Branch; b != nil && b.As == profiler.Taken {
		return absent("a loop of %d bytes stays in it", len(q.code))
	}
	if q.base.UnrollLong <= fewer.Long {
		return absent("%d copies are as many as the op cache is given", q.base.UnrollLong)
	}
	here := fmt.Sprintf("%d copies exceed the share of the op cache that holds %d", q.base.UnrollLong, fewer.Long)
	if !fits {
		return untested(here, "not even the fewest copies fit")
	}
	with, without := q.setup, q.setup
	without.Unroll = &fewer
	if q.base.Predicted.L1IMisses > 0 {
		most, ok := q.factors().Within(q.frontEnd().L1I / 2 / len(q.code))
		if !ok {
			return untested(here, "no two numbers of copies fit L1I")
		}
		with.Unroll, with.FrontEnd = &most, profiler.Decode
	}
	return change(here, fmt.Sprintf("%d and %d copies", fewer.Short, fewer.Long), with, without)
}

func (q *question) frontEnd() unroll.FrontEnd { return q.base.Host.CPU.FrontEnd }

func (q *question) factors() unroll.Factors {
	return unroll.Factors{Short: q.base.UnrollShort, Long: q.base.UnrollLong}
}
