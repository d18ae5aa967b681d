package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Requirement is one that the method has of an architecture, and what was found of it here: the three of BHive (IISWC 2019,
// section 3: pages that alias, counters for misses, control over subnormals), and an op cache that serves loops.
type Requirement struct {
	Name    string  `json:"name"`
	Met     Met     `json:"met"`
	Detail  string  `json:"detail"`
	Prices  []Price `json:"prices,omitempty"`
	Instead string  `json:"instead,omitempty"` // what bbprof does where it is not met
}

type Met string

const (
	Yes     Met = "met"
	Partly  Met = "partly met"
	No      Met = "not met"
	Unknown Met = "not found out"
)

// Price is what one thing costs, in core cycles per iteration: 0, with the reason, where it
// was not measured.
type Price struct {
	What   string  `json:"what"`
	Under  string  `json:"under"` // which of the conditions that are compared
	Cycles float64 `json:"cycles"`
	CILow  float64 `json:"ci_low,omitzero"`
	CIHigh float64 `json:"ci_high,omitzero"`
	Why    string  `json:"why,omitempty"`
}

const Aliased = "aliased pages at no cost"

const (
	OneFrame  = "one frame"
	TwoFrames = "two frames"
	OtherLine = "other line"

	Waiting  = "dependent loads"
	Parallel = "independent loads"
	Through  = "store, then load"

	Normal    = "normal numbers"
	Flushed   = "subnormals, flushed"
	Subnormal = "subnormals, computed"

	InLoop   = "in a loop"
	Decoders = "from the decoders"
)

// prefixed is cmp di, 256; nop. Intel's decoders, and only they, take three cycles for the operand-size prefix that changes the length of the
// immediate (Optimization Manual, "Length-Changing Prefixes").
const prefixed = "6681ff00016690"

// A loop of prefixedCopies copies, closed by dec rcx; jnz, is as large as loops in programs.
const prefixedCopies = 16

var prefixedLoop = strings.Repeat(prefixed, prefixedCopies) + "48ffc9" + "758b"

// aliases are blocks that use two pages at one offset, and the same with the second 64 bytes on,
// which is another line. A block whose two accesses meet in one line of one frame should take no
// longer than either of the others.
var aliases = [...]struct{ what, same, other string }{
	// mov rax, [rax]; mov rax, [rax+0x1000]: memory holds the pointer itself
	{Waiting, "488b00488b8000100000", "488b00488b8040100000"},
	// mov rax, [rbx]; mov rcx, [rbx+0x1000]
	{Parallel, "488b03488b8b00100000", "488b03488b8b40100000"},
	// mov [rbx], rcx; mov rcx, [rbx+0x1000]: what is loaded is stored next
	{Through, "48890b488b8b00100000", "48890b488b8b40100000"},
}

// product makes 1.0 of all ones (54 bits up, 2 down leave the exponent 0x3ff), puts it, or a
// word of memory that read as a number is subnormal, into xmm0, and multiplies: a chain through
// or and mul that has the one or the other number at its input, copy after copy.
const (
	one              = "660f76c9660f73f136660f73d102" // pcmpeqd xmm1, xmm1; psllq xmm1, 54; psrlq xmm1, 2
	productNormal    = one + "660f56c1f20f59c1"       // orpd xmm0, xmm1; mulsd xmm0, xmm1
	productSubnormal = one + "660f5603f20f59c1"       // orpd xmm0, [rbx]; mulsd xmm0, xmm1
)

// A price counts as zero within freeShare, or freeCycles where that is more, of what it is
// compared with: twice what selftest allows a known number to be off.
const (
	freeShare  = 0.03
	freeCycles = 0.04
)

func free(price, otherwise float64) bool {
	return price <= otherwise+max(freeShare*otherwise, freeCycles)
}

func (x *exam) requirements(counters pmu.PMU) ([]Requirement, error) {
	var one, two []job
	for _, a := range aliases {
		one = append(one, job{a.what, OneFrame, a.same}, job{a.what, OtherLine, a.other})
		two = append(two, job{a.what, TwoFrames, a.same})
	}
	decoded := x.opts
	decoded.FrontEnd = profiler.Decode
	plain := x.opts
	plain.NoRescue = true // in other states, the pages would be others
	// Blocks with aliased pages are rejected otherwise, for what they show here.
	shared, apart, computed := plain, plain, plain
	shared.Tolerate = []verdict.Reason{verdict.AliasFrame, verdict.Alias4K}
	apart.Tolerate = shared.Tolerate
	shared.Frames, apart.Frames, computed.NoFTZ = 1, 2, true
	var aliased, subnormals, fetched []Price
	for _, m := range []struct {
		to   *[]Price
		opts profiler.Options
		jobs []job
	}{
		{&aliased, shared, one},
		{&aliased, apart, two},
		{&subnormals, plain, []job{{"mulsd", Normal, productNormal}, {"mulsd", Flushed, productSubnormal}}},
		{&subnormals, computed, []job{{"mulsd", Subnormal, productSubnormal}}},
		{&fetched, x.opts, []job{{"cmp di, 256", InLoop, prefixedLoop}}},
		{&fetched, decoded, []job{{"cmp di, 256", Decoders, prefixed}}},
	} {
		more, err := x.prices(m.opts, m.jobs)
		if err != nil {
			return nil, err
		}
		*m.to = append(*m.to, more...)
	}
	return []Requirement{judgeAliased(aliased, x.sys.CPU.Core), judgeCounted(x.evidence, counters), judgeSubnormals(subnormals), judgeFetched(fetched)}, nil
}

type job struct{ what, under, hex string }

// prices measures jobs with a profiler of their own. Where one cannot be started, as on a core
// that became busy, each says so.
func (x *exam) prices(opts profiler.Options, jobs []job) (all []Price, err error) {
	err = x.with(opts, func(p pool.Profiler) error {
		for _, j := range jobs {
			r, err := x.measure(p, j.hex)
			if err != nil {
				return err
			}
			all = append(all, Price{j.what, j.under, r.Cycles, r.CILow, r.CIHigh, why(r)})
		}
		return nil
	})
	missing, err := hostError(err)
	if missing != nil {
		for _, j := range jobs[len(all):] {
			all = append(all, Price{What: j.what, Under: j.under, Why: missing.Missing})
		}
	}
	return all, err
}

// PriceOf is a price by its names, in cycles; why is set if it was not measured.
func PriceOf(prices []Price, what, under string) (cycles float64, why string) {
	i := slices.IndexFunc(prices, func(p Price) bool { return p.What == what && p.Under == under })
	switch {
	case i < 0:
		return 0, "it was not measured"
	case prices[i].Why == "" && prices[i].Cycles <= 0:
		return 0, "it took no time"
	}
	return prices[i].Cycles, prices[i].Why
}

// judgeAliased: loads alone have no reason to cost anything; a store and a load that meet in one
// line of a frame depend on each other, which the program knows nothing of.
func judgeAliased(prices []Price, core invariants.Core) Requirement {
	r := Requirement{Name: Aliased, Met: Yes, Prices: prices}
	loads := true
	for _, a := range aliases {
		with, why1 := PriceOf(prices, a.what, OneFrame)
		without, why2 := PriceOf(prices, a.what, OtherLine)
		if a.what != Through { // separate frames leave a store and a load with equal low 12 bits
			without, why2 = PriceOf(prices, a.what, TwoFrames)
		}
		switch {
		case why1 != "" || why2 != "":
			r.Met, r.Detail = Unknown, a.what+": "+cmp.Or(why1, why2)
			return r
		case !free(with, without) && a.what != Through:
			loads, r.Met = false, No
		case !free(with, without) && loads:
			r.Met = Partly
		}
	}
	switch r.Met {
	case Yes:
		r.Detail = "two pages on one frame cost nothing"
		return r
	case Partly:
		r.Detail = "loads alone cost nothing; a store and a load through two pages of one frame do"
	case No:
		r.Detail = "two pages on one frame make even loads slower"
		if core.WayPredicted {
			r.Detail += ": L1D ways are predicted from linear addresses"
		}
	}
	r.Instead = fmt.Sprintf("pages that share a line of a frame get a frame each, up to %d of them", core.L1DWays)
	return r
}

// judgeCounted judges by the evidence of a result: what bbprof does with a counter counts, not that
// there is one.
func judgeCounted(evidence []invariants.Evidence, counters pmu.PMU) Requirement {
	r := Requirement{Name: "counters for misses", Met: Unknown, Detail: "no block touched memory and was measured"}
	counted, all := 0, 0
	for _, e := range evidence {
		if e.Invariant == verdict.L1DMiss || e.Invariant == verdict.L1IMiss {
			if all++; e.Kind == invariants.Counted {
				counted++
			}
		}
	}
	switch {
	case all == 0:
		return r
	case counted == all:
		r.Met, r.Detail = Yes, "misses of L1D and L1I are counted"
		return r
	case counted > 0:
		r.Met, r.Detail = Partly, fmt.Sprintf("%d of %d kinds of miss are counted", counted, all)
	case counters.Available:
		r.Met, r.Detail = No, "core cycles can be counted, but the misses of a block were not"
	default:
		r.Met, r.Detail = No, "there are none to use"
	}
	r.Instead = "misses are inferred from the addresses and the sizes of the caches"
	return r
}

func judgeSubnormals(prices []Price) Requirement {
	r := Requirement{Name: "subnormals controllable", Prices: prices}
	normal, why1 := PriceOf(prices, "mulsd", Normal)
	flushed, why2 := PriceOf(prices, "mulsd", Flushed)
	if why1 != "" || why2 != "" {
		r.Met, r.Detail = Unknown, cmp.Or(why1, why2)
		return r
	}
	if free(flushed, normal) {
		r.Met, r.Detail = Yes, fmt.Sprintf("flushed to zero they take the %.2f cycles of normal numbers", normal)
	} else {
		r.Met, r.Detail = No, fmt.Sprintf("flushed to zero they take %.2f cycles, normal numbers %.2f", flushed, normal)
		r.Instead = "blocks are measured with what their numbers cost"
	}
	if computed, why := PriceOf(prices, "mulsd", Subnormal); why == "" {
		r.Detail += fmt.Sprintf("; computed, as with -ftz=false, %.2f", computed)
	}
	return r
}

// judgeFetched compares a loop with the decoders, where they are slow.
func judgeFetched(prices []Price) Requirement {
	r := Requirement{Name: "loops from an op cache", Met: Unknown, Prices: prices}
	loop, why1 := PriceOf(prices, "cmp di, 256", InLoop)
	decoders, why2 := PriceOf(prices, "cmp di, 256", Decoders)
	loop /= prefixedCopies
	switch both := fmt.Sprintf("cmp di, 256 takes %.2f cycles in a loop and %.2f from the decoders", loop, decoders); {
	case why1 != "" || why2 != "":
		r.Detail = cmp.Or(why1, why2)
	case decoders < 2: // without a penalty
		r.Detail = "no block tells them from decoders here: " + both
	case loop < decoders/2:
		r.Met, r.Detail = Yes, both
	default:
		r.Met, r.Detail = No, both
		r.Instead = "results are those of the decoders, whatever column frontend says"
	}
	return r
}

// pageZero tries whether a block can have page 0: xor eax, eax; mov eax, [rax].
func (x *exam) pageZero() (string, error) {
	opts := x.opts
	opts.NoRescue = true
	answer := ""
	err := x.with(opts, func(p pool.Profiler) error {
		r, err := p.Profile(x.ctx, profiler.Block{Code: []byte{0x31, 0xc0, 0x8b, 0x00}})
		switch {
		case err != nil:
			return err
		case r.Status == profiler.OK:
			answer = "yes"
		case r.Reason == verdict.Unmappable:
			answer = "no"
		}
		return nil
	})
	_, err = hostError(err)
	return answer, err
}
