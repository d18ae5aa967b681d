package asm

import (
	"regexp"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestValues: the operands of an instruction, encoded by the form of its shape, are the same text.
func TestValues(t *testing.T) {
	bits := regexp.MustCompile(`\bi\d+\b`)
	byShape := map[string][]*Form{}
	list := Forms()
	for i := range list {
		shape := bits.ReplaceAllString(list[i].Name(), "i")
		byShape[shape] = append(byShape[shape], &list[i])
	}
	for _, tt := range []struct {
		hex  string
		none bool
	}{
		{hex: "4801c0"}, {hex: "4c89f1"}, {hex: "488b442418"}, {hex: "488d7c9008"}, {hex: "83c001"}, {hex: "480fafc3"},
		{hex: "c5f458c2"}, {hex: "66410fefc0"}, {hex: "48c1e003"}, {hex: "0fb6c1"}, {hex: "410fb6c0"}, {hex: "f20f1008"},
		{hex: "88e0", none: true},               // ah
		{hex: "488b0510000000", none: true},     // rip
		{hex: "64488b042528000000", none: true}, // fs
		{hex: "f00fb10f", none: true},           // lock
		{hex: "f348ab", none: true},             // rep
		{hex: "678b00", none: true},             // address of 32 bits
		{hex: "c4e26990040f", none: true},       // gather
		{hex: "8b042500100000", none: true},     // no base
	} {
		code := require.Get(ParseHex(tt.hex, 15))(t)
		insts := require.Get(Decode(code))(t)
		in := &insts[0]
		values, at, mask, ok := in.OperandValues()
		if ok == tt.none {
			t.Errorf("%s: values are there: %t", in.Text(), ok)
		}
		if !ok {
			continue
		}
		same := false
		for _, f := range byShape[in.Shape()] {
			again, err := f.Encode(values, at, mask)
			if err != nil {
				t.Errorf("%s: %v", in.Text(), err)
				continue
			}
			if insts, err := Decode(again); err == nil && insts[0].Text() == in.Text() {
				same = true
			}
		}
		if !same {
			t.Errorf("%s (%s): no form of %d gives it back", in.Text(), in.Shape(), len(byShape[in.Shape()]))
		}
	}
}
