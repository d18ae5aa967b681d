package initial

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Memory lists the words of memory that do not hold the fill word, by ascending address.
type Memory []Word

// Word is 64 bits at a virtual address that is a multiple of 8.
type Word struct {
	Address uint64 `json:"address"`
	Value   uint64 `json:"value"`
}

// ParseMemory reads ADDRESS=VALUE with commas between several.
func ParseMemory(text string) (m Memory, err error) {
	for one := range strings.SplitSeq(text, ",") {
		address, value, ok := strings.Cut(one, "=")
		a, badAddress := strconv.ParseUint(strings.TrimSpace(address), 0, 64)
		v, badValue := strconv.ParseUint(strings.TrimSpace(value), 0, 64)
		switch {
		case !ok || badAddress != nil || badValue != nil:
			return nil, fmt.Errorf("%q is not ADDRESS=VALUE, such as 0x12345608=0x1234560f", strings.TrimSpace(one))
		case a%8 != 0:
			return nil, fmt.Errorf("%#x is not a multiple of 8: give the words at %#x and %#x", a, a&^7, a&^7+8)
		}
		if m, err = m.And(Memory{{a, v}}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// And adds other words; none may be in both.
func (m Memory) And(more Memory) (Memory, error) {
	m = slices.Clone(m)
	for _, w := range more {
		i, there := slices.BinarySearchFunc(m, w, func(a, b Word) int { return cmp.Compare(a.Address, b.Address) })
		if there {
			return nil, fmt.Errorf("%#x is set twice", w.Address)
		}
		m = slices.Insert(m, i, w)
	}
	return m, nil
}

// String is what ParseMemory reads.
func (m Memory) String() string {
	var list []string
	for _, w := range m {
		list = append(list, fmt.Sprintf("%#x=%#x", w.Address, w.Value))
	}
	return strings.Join(list, ",")
}
