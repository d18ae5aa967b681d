package profiler

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

func TestCongruent(t *testing.T) {
	const page = layout.PageSize
	for _, c := range []struct{ at, end, want uint64 }{
		{64, 64, 64}, {64, 65, 64 + page}, {64, 64 + page, 64 + page}, {64, 65 + page, 64 + 2*page}, {0, page - 1, page},
	} {
		if got := congruent(c.at, c.end); got != c.want {
			t.Errorf("behind %#x, as %#x: %#x, want %#x", c.end, c.at, got, c.want)
		}
	}
}

// prepared is a block up to where it is timed.
func (b bench) prepared(block Block) *run {
	b.t.Helper()
	r := b.newRun(block)
	if err := errors.Join(r.decode(), r.refuse(), r.choose()); err != nil {
		b.t.Fatal(err)
	}
	if err := r.prepare(); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// The images of a stay stand one behind the other, each in the sets of L1I in which it would stand
// alone, so that what is said of the code's size holds for each of them.
func TestLayViews(t *testing.T) {
	offset := 48
	b := openBench(t)
	for _, c := range []struct {
		name  string
		block Block
		shift uint64 // from one look to the next
		looks int
	}{
		{"a load", Block{Code: unhex(t, "488b03")}, layoutStep, stayLooks},
		{"a load at an offset", Block{Code: unhex(t, "488b03"), Setup: Setup{CodeOffset: &offset}}, 0, stayLooks},
		{"no room for a second", Block{Code: slices.Repeat([]byte{0x90}, 1000), Setup: Setup{Unroll: &unroll.Factors{Short: 500, Long: 900}}}, layoutStep, 1},
	} {
		r := b.prepared(c.block)
		views, err := r.layViews(0, stayLooks)
		if err != nil || len(views) != c.looks {
			t.Fatalf("%s: %d looks, want %d: %v", c.name, len(views), c.looks, err)
		}
		bytes := r.codeBytes()
		if c.looks == 1 {
			if _, ok, err := r.viewThird(); ok || err != nil {
				t.Errorf("%s: room for a third number: %v, %v", c.name, ok, err)
			}
			continue
		}
		third, ok, err := r.viewThird()
		if err != nil || !ok {
			t.Fatalf("%s: no third number: %v", c.name, err)
		}
		first, second := views[0], views[1]
		if second.short.At < first.long.End() || third.long.At < second.long.End() {
			t.Errorf("%s: images overlap: %#x–%#x, %#x–%#x, %#x", c.name, first.short.At, first.long.End(), second.short.At, second.long.End(), third.long.At)
		}
		if d := (second.short.At - first.short.At) % layout.PageSize; d != c.shift {
			t.Errorf("%s: the second look is shifted by %d, want %d", c.name, d, c.shift)
		}
		if d := (third.long.At - second.long.At) % layout.PageSize; d != 0 || third.short.At != second.short.At {
			t.Errorf("%s: the third number is shifted by %d", c.name, d)
		}
		if c.block.Setup.CodeOffset != nil {
			for _, at := range []uint64{first.short.First, first.long.First, second.short.First, second.long.First, third.long.First} {
				if at%64 != uint64(offset)%64 {
					t.Errorf("%s: a first copy at %#x", c.name, at)
				}
			}
		}
		// As if the second look were the only one.
		if err := r.build(r.images, c.shift); err != nil {
			t.Fatal(err)
		}
		if alone := r.codeBytes(); bytes != alone {
			t.Errorf("%s: %d bytes of code, alone %d", c.name, bytes, alone)
		}
	}
}

// Images that leave no room for a traced copy are too large.
func TestNoRoomToTrace(t *testing.T) {
	b := openBench(t)
	code := unhex(t, "488b03")
	for _, room := range []uint64{1000, 2500, 4000, 8000} { // with what stands around the copies
		const short = 1000
		long := int(layout.CodeEnd-b.images-room)/len(code) - short
		r := b.newRun(Block{Code: code, Setup: Setup{Unroll: &unroll.Factors{Short: short, Long: long}}})
		if err := errors.Join(r.decode(), r.refuse(), r.choose()); err != nil {
			t.Fatal(err)
		}
		err := r.prepare()
		rejection := (*verdict.Rejection)(nil)
		if tooLarge := errors.As(err, &rejection) && rejection.Reason == verdict.CodeExceedsL1I; tooLarge != (room < 8000) || !tooLarge && err != nil {
			t.Errorf("%d bytes are left: %v", room, err)
		}
	}
}

// The third number of copies lacks the same windows in each block, whatever became of those before.
func TestViewThirdHasItsWindows(t *testing.T) {
	b := openBench(t)
	b.quiet, b.rate.ticks = math.MaxInt32, 1 // of a clock that is not calibrated nothing is asked
	want := []int{0, lookWindows / 2}
	for range 3 {
		r := b.prepared(Block{Code: unhex(t, "488b03")})
		if v, ok, err := r.viewThird(); err != nil || !ok || !slices.Equal(v.missing, want) {
			t.Fatalf("it lacks the windows %v, want %v: %v, %v", v.missing, want, ok, err)
		}
		r.opts.Budget, r.opts.Precision = 10*time.Second, math.Inf(1)
		if err := r.time(); err != nil {
			t.Fatal(err)
		}
	}
}

// A stay has at most so many windows, of the first views that lack some; what was mapped once is
// mapped afresh the next time.
func TestPlanStay(t *testing.T) {
	b := openBench(t)
	r := b.prepared(Block{Code: unhex(t, "488b03")})
	views := []view{{mapped: true, missing: []int{0, 1, 2}}, {}, {missing: []int{4, 5}}}
	for _, c := range []struct {
		most  int
		turns [][]int
		setup []bool
	}{
		{2, [][]int{{0, 1}}, []bool{false}},
		{3, [][]int{{0, 1, 2}}, []bool{true}},
		{4, [][]int{{0, 1, 2}, {4}}, []bool{true, true}},
		{9, [][]int{{0, 1, 2}, {4, 5}}, []bool{true, true}},
	} {
		plan, of := r.planStay(views, c.most)
		var turns [][]int
		var setup []bool
		for _, s := range plan.scenes {
			turns = append(turns, s.turns)
			setup = append(setup, len(s.setup) > 1) // more than the fresh image
		}
		if !slices.EqualFunc(turns, c.turns, slices.Equal) || !slices.Equal(setup, c.setup) {
			t.Errorf("at most %d: %v, mapped %v; want %v, %v", c.most, turns, setup, c.turns, c.setup)
		}
		if of[0] != &views[0] || len(of) > 1 && of[1] != &views[2] {
			t.Errorf("at most %d: not the views that lack windows", c.most)
		}
	}
}
