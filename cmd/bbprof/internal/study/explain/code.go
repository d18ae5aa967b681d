package explain

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/rewrite"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/values"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
)

// forwarding stores the whole of what such a load reads just before it, so that one store serves it.
func (q *question) forwarding() test {
	p := *q.base.Predicted
	if p.Blocked == 0 {
		return absent("no load waits for a store of a part of its bytes")
	}
	here := fmt.Sprintf("per iteration %.3g loads need more bytes than the store that they wait for has", p.Blocked)
	with, without, ok := rewrite.Whole(q.insts, p.Forwards)
	if !ok {
		return untested(here, "no store can be encoded that serves them")
	}
	t := change(here, "before each a store of all its bytes, against one two lines on", q.setup, q.setup)
	t.With.code, t.Without.code = string(with.Apply(q.insts)), string(without.Apply(q.insts))
	still, ended := q.measureCode(t.With.code, q.setup), q.measureCode(t.Without.code, q.setup)
	if still.Status != profiler.OK || ended.Status != profiler.OK || still.Predicted.Blocked == 0 || ended.Predicted.Blocked > 0 ||
		still.Predicted.Splits != ended.Predicted.Splits || still.Predicted.Alias4K != ended.Predicted.Alias4K {
		return untested(here, "no stores end this and change nothing else")
	}
	return t
}

// equalAddresses takes an initial state without equal pointers, if possible with indices in memory that differ, too.
func (q *question) equalAddresses() test {
	p, n := q.base.Predicted, q.base.SelfForwarding
	if n == 0 {
		return absent("no load meets a store only because registers or words of memory start equal")
	}
	here := fmt.Sprintf("per iteration %s met a store only because registers or words of memory start equal", words.Plural(n, "load"))
	for _, s := range initial.Distinct(q.base.Apart) {
		apart := q.withInit(func(init *initial.State) { init.GPR, init.Fill, init.Elements = s.GPR, s.Fill, s.Elements })
		r := q.measure(apart)
		if r.Status == profiler.OK && r.SelfForwarding == 0 && r.Predicted.Alias4K == p.Alias4K && r.Predicted.Splits == p.Splits {
			what := "the pointers of initial state " + s.Name
			if s.Elements.Width > 0 {
				what += ", and indices in memory that differ"
			}
			return change(here, what, q.setup, apart)
		}
	}
	return untested(here, "no initial state ends this and changes nothing else")
}

// operandValues gives what the block reads the values that change its time the most.
func (q *question) operandValues() test {
	const here = "it reads data, fixed here and put back where it overwrites them"
	switch {
	case q.err != nil:
		return test{}
	case q.base.Predicted.L1IMisses > 0:
		return untested(here, "the copies exceed L1I, and so many values take too long")
	}
	c, ok, err := values.Farthest(q.ctx, q.p, profiler.Block{Code: q.code, Setup: q.setup}, experiment.Plan{Rounds: leastRounds})
	if q.err = err; !ok {
		return absent("it reads no data whose values can be set")
	}
	t := change(here, fmt.Sprintf("%s: %s, %s", c.Input, c.Values, c.Set), c.Fixed.Setup, c.Changed.Setup)
	t.With.code, t.Without.code = string(c.Fixed.Code), string(c.Changed.Code)
	return t
}

// mixed encodes legacy vector instructions with VEX, so that they do not keep the upper parts of registers.
func (q *question) mixed() test {
	legacy, wide := 0, slices.ContainsFunc(q.base.Init.Vectors, func(v initial.Vector) bool { return v.Bits > 128 })
	for i := range q.insts {
		if rewrite.LegacyVector(&q.insts[i]) {
			legacy++
		}
		_, writes := q.insts[i].Dataflow()
		wide = wide || writes.Vector != 0 && asm.StateOf(q.insts[i:i+1]).VectorBits > 128
	}
	switch {
	case legacy == 0:
		return absent("no vector instruction has a legacy encoding")
	case !wide:
		return absent("no register's upper part is in use")
	}
	here := fmt.Sprintf("%d legacy vector instructions keep the upper parts of registers, which are in use", legacy)
	without, ok := rewrite.VEX(q.insts)
	if !ok {
		return untested(here, "not all of them can be encoded with VEX")
	}
	t := change(here, "encode them with VEX", q.setup, q.setup)
	t.Without.code = string(without.Apply(q.insts))
	return t
}
