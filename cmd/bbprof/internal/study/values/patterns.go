package values

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// pattern is a kind of value, by which the values of different inputs are compared.
type pattern struct {
	name string
	word uint64
}

const (
	onesInDoubles  = 0x3ff0_0000_0000_0000 // 1.0
	twoSingles     = 0x3f80_0000_3f80_0000 // 1.0 twice
	smallestDouble = 1
	twoSmallest    = 0x0000_0001_0000_0001 // the smallest subnormal single, twice; as a double it is subnormal, too
	twoInfinities  = 0x7f80_0000_7f80_0000
	twoNaNs        = 0x7fc0_0000_7fc0_0000
)

// integers are the boundaries at which circuits that look at operand values change what they do: width and sign.
var integers = []pattern{
	{"zero", 0}, {"one", 1}, {"ones", math.MaxUint64}, {"width 8", 0xff}, {"width 16", 0xffff}, {"sign 32", 1 << 31}, {"width 32", math.MaxUint32},
	{"largest", math.MaxInt64}, {"sign", 1 << 63},
}

var floats = []pattern{
	{"1.0 doubles", onesInDoubles}, {"1.0 singles", twoSingles}, {"subnormal doubles", smallestDouble}, {"subnormal singles", twoSmallest},
	{"infinite doubles", math.Float64bits(math.Inf(1))}, {"infinite singles", twoInfinities},
	{"NaN doubles", math.Float64bits(math.NaN())}, {"NaN singles", twoNaNs},
}

// draws is how many random values of an input are compared with the fixed one.
const draws = 3

// near are what is added to pointers: another bank, another line, the same line three lines on, another page.
var near = []pattern{{"+8", 8}, {"+64", 64}, {"+192", 192}, {"+4096", 4096}}

var counts = []pattern{{"zero", 0}, {"one", 1}, {"seven", 7}, {"64", 64}}

// strides are the distances between the indices of a gather's or scatter's elements.
var strides = []pattern{{"equal", 0}, {"adjacent", 1}, {"a line apart", 8}, {"a page apart", 512}}

// assigned is a value of an input, in the syntax of -set, or for memory of -mem.
type assigned struct{ name, text string }

// assignments returns the values to try of an input; base is its value in the state.
func (in Input) assignments(base uint64, random *rand.Rand) (all []assigned) {
	words := func(name string, word func() uint64) { all = append(all, assigned{name, in.text(word)}) }
	from := func(patterns []pattern, add uint64) {
		for _, p := range patterns {
			words(p.name, func() uint64 { return p.word + add })
		}
	}
	switch {
	case in.index > 0:
		for _, p := range strides {
			all = append(all, assigned{p.name, in.indices(p.word)})
		}
		return all
	case in.Role == Pointer:
		from(near, base)
		return all
	case in.Role == Count:
		from(counts, 0)
		return all
	case in.kind == flag:
		from(integers[:2], 0)
		return all
	}
	from(integers, 0)
	if in.kind == vector || in.kind == memory {
		from(floats, 0)
	}
	for range draws {
		words("random", random.Uint64)
	}
	if in.kind == vector {
		equal := random.Uint64()
		words("equal lanes", func() uint64 { return equal })
		words("random normals", func() uint64 { return normal(random) })
	}
	return all
}

// normal returns a random word that is a normal number, between 1 and 2, as a double and as two singles.
func normal(random *rand.Rand) uint64 {
	return random.Uint64()&0x000f_ffff_007f_ffff | 0x3ff0_0000_3f80_0000
}

// text assigns words to an input; word is called for each word of a vector.
func (in Input) text(word func() uint64) string {
	if in.kind == memory {
		return fmt.Sprintf("%#x=%#x", in.address, word())
	}
	if in.kind != vector {
		return fmt.Sprintf("%s=%#x", in.Name, word())
	}
	var w strings.Builder
	for range in.bits / 64 {
		fmt.Fprintf(&w, "%016x", word())
	}
	return in.Name + "=0x" + w.String()
}

// indices assigns the multiples of a stride to the indices in a vector register, the lowest first.
func (in Input) indices(stride uint64) string {
	var w strings.Builder
	for i := in.bits/8/in.index - 1; i >= 0; i-- {
		fmt.Fprintf(&w, "%0*x", 2*in.index, uint64(i)*stride)
	}
	return in.Name + "=0x" + w.String()
}
