package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

type scale struct{ low, high, from, to float64 }

func (s scale) at(v float64) float64 { return s.from + (v-s.low)/(s.high-s.low)*(s.to-s.from) }

type span struct{ low, high float64 }

func nothing() span { return span{math.Inf(1), math.Inf(-1)} }

func (s *span) add(values ...float64) {
	for _, v := range values {
		if finite(v) {
			s.low, s.high = min(s.low, v), max(s.high, v)
		}
	}
}

func finite(values ...float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v-v != 0 })
}

// wide extends the span for what is drawn at its ends. Spans of no or one value get some width.
func (s span) wide(below, above float64) span {
	if s.low > s.high {
		return span{0, 1}
	}
	room := s.high - s.low
	if room < 1e-9*max(math.Abs(s.low), math.Abs(s.high), 1) {
		room, below, above = max(math.Abs(s.high)/10, 0.5), 1, 1
	}
	return span{s.low - below*room, s.high + above*room}
}

type tick struct {
	value float64
	label string
}

// ticks returns multiples of a round step from low to high, at most most, with the step's decimals. A given step is
// doubled until they are few enough.
func ticks(s span, most int, step float64) (all []tick) {
	most = max(most, 2)
	decimals := 0
	if step > 0 {
		for (s.high-s.low)/step > float64(most) {
			step *= 2
		}
	} else {
		step, decimals = roundStep((s.high - s.low) / float64(most))
	}
	for n := math.Ceil(s.low/step - 1e-9); n*step <= s.high+1e-9*step; n++ {
		all = append(all, tick{n * step, strconv.FormatFloat(n*step+0, 'f', decimals, 64)}) // + 0: no -0
	}
	return all
}

// roundStep returns the least of 1, 2 and 5 times a power of ten that is at least step, and its number of decimals.
func roundStep(step float64) (round float64, decimals int) {
	exponent := int(math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 5} {
		if v := m * math.Pow10(exponent); v >= step*(1-1e-9) {
			return v, max(0, -exponent)
		}
	}
	return math.Pow10(exponent + 1), max(0, -exponent-1)
}

func thousands(s span) (by float64, name string) {
	switch most := max(math.Abs(s.low), math.Abs(s.high)); {
	case most >= 1e9:
		return 1e9, "billions"
	case most >= 1e6:
		return 1e6, "millions"
	}
	return 1, ""
}

// wrap breaks text at spaces into lines of at most width; words that are too long stay whole.
func wrap(text string, size, width float64) (lines []string) {
	for _, line := range strings.Split(text, "\n") {
		lines = append(lines, words.Wrap(line, func(line string) bool { return textWidth(line, size) <= width })...)
	}
	return lines
}

// chop breaks text without spaces, such as a block's digits, into lines of at most width.
func chop(text string, size, width float64) (lines []string) {
	for _, line := range wrap(text, size, width) {
		for textWidth(line, size) > width {
			n := max(1, int(float64(len(line))*width/textWidth(line, size)))
			lines, line = append(lines, line[:n]), line[n:]
		}
		lines = append(lines, line)
	}
	return lines
}
