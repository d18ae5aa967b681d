package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// The splits of a dataset, and the value of column split for a block in none, because another split has a
// near-duplicate.
const (
	Train      = "train"
	Validation = "validation"
	Test       = "test"
	LeftOut    = "left_out"
)

// splits in the order of their claim on a block, and the usual shares.
var (
	splits = []string{Test, Validation, Train}
	shares = []float64{0.1, 0.1, 0.8}
)

// farOff is how far a split's share of the accepted blocks may be from its target.
const farOff = 0.05

// uneven describes how far the split is from its target, "" if near.
func (c *Counts) uneven() string {
	total, far := 0, false
	for _, n := range c.Splits {
		total += n
	}
	var have, want []string
	for i, split := range slices.Backward(splits) {
		share := float64(c.Splits[split]) / float64(total)
		far = far || math.Abs(share-shares[i]) > farOff
		have = append(have, fmt.Sprintf("%.0f", 100*share))
		want = append(want, fmt.Sprintf("%.0f", 100*shares[i]))
	}
	if !far {
		return ""
	}
	text := fmt.Sprintf("the split is %s %% for train, validation and test, not %s", strings.Join(have, ", "), strings.Join(want, ", "))
	if n := c.Splits[LeftOut]; n > 0 {
		text += fmt.Sprintf("; %.0f %% are left out, since near-duplicates of them are in another split", 100*float64(n)/float64(total))
	}
	return text
}

// nearKey is equal for blocks that differ only in registers, immediates and addresses.
func nearKey(block string) uint64 {
	insts, err := asm.DecodeHex(block)
	if err != nil {
		return 0
	}
	h := sha256.New()
	for i := range insts {
		h.Write([]byte(insts[i].Shape() + "\n"))
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// splitBlock is what the split needs to know of an accepted block.
type splitBlock struct {
	application string
	key         uint64
}

// assign chooses each application's split: largest application first, each to the split with the largest deficit.
// nil if there are fewer applications than splits.
func assign(blocks []splitBlock) map[string]string {
	sizes := map[string]int{}
	for _, b := range blocks {
		sizes[b.application]++
	}
	if len(sizes) < len(splits) {
		return nil
	}
	order := words.ByCount(sizes)
	assigned, have := map[string]string{}, map[string]int{}
	for i, name := range order {
		best, most := "", 0.
		for k, split := range splits {
			lacks := shares[k]*float64(len(blocks)) - float64(have[split])
			needed := len(splits)-len(have) == len(order)-i // by splits that are still empty
			if !(needed && have[split] > 0) && (best == "" || lacks > most) {
				best, most = split, lacks
			}
		}
		assigned[name] = best
		have[best] += sizes[name]
	}
	return assigned
}

// byKey chooses a pseudorandom split, the same for all near-duplicates of a block.
func byKey(key uint64) string {
	x := float64(key) / (1 << 64)
	for i, split := range splits {
		if x < shares[i] {
			return split
		}
		x -= shares[i]
	}
	return Train
}

type splitter struct {
	applications map[string]string // nil: split by near-duplicates alone
	owner        map[uint64]string // the split that keeps the near-duplicates of a key
}

// newSplitter gives near-duplicates in several applications to the first of test, validation and train that has
// one: the small splits stay whole, and training loses blocks.
func newSplitter(blocks []splitBlock) splitter {
	s := splitter{assign(blocks), map[uint64]string{}}
	if s.applications == nil {
		return s
	}
	for _, b := range blocks {
		split := s.applications[b.application]
		if old, ok := s.owner[b.key]; !ok || slices.Index(splits, split) < slices.Index(splits, old) {
			s.owner[b.key] = split
		}
	}
	return s
}

func (s splitter) of(b splitBlock) string {
	if s.applications == nil {
		return byKey(b.key)
	}
	if split := s.applications[b.application]; split == s.owner[b.key] {
		return split
	}
	return LeftOut
}
