package asm

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// list writes values as names: registers, v0 of vectors, k1 of opmasks, x87, and flags by their first letters.
func (v Values) list() string {
	var all []string
	for set := v.GPR; set != 0; set &= set - 1 {
		all = append(all, Reg(bits.TrailingZeros16(set)).String())
	}
	for set := v.Vector; set != 0; set &= set - 1 {
		all = append(all, fmt.Sprint("v", bits.TrailingZeros32(set)))
	}
	for set := v.Opmask; set != 0; set &= set - 1 {
		all = append(all, fmt.Sprint("k", bits.TrailingZeros8(set)))
	}
	if v.X87 {
		all = append(all, "x87")
	}
	flags := ""
	for set := v.Flags; set != 0; set &= set - 1 {
		flags += "CPAZSO"[bits.TrailingZeros8(uint8(set)):][:1]
	}
	return strings.Join(append(all, strings.Fields(flags)...), " ")
}

func TestDataflow(t *testing.T) {
	for _, row := range require.Table(t, "dataflow.txt") {
		in := &mustDecode(t, row[0])[0]
		reads, writes := in.Dataflow()
		require.Equal(t, row[3], row, []string{row[0], reads.list(), writes.list(), row[3]})
	}
}

func TestSingle(t *testing.T) {
	want := []Values{{GPR: 1}, {GPR: 1 << 15}, {Vector: 1 << 31}, {Opmask: 2}, {Flags: Carry}, {Flags: AllFlags &^ Carry}, {X87: true}}
	var all Values
	for _, v := range want {
		all = all.Or(v)
	}
	require.Equal(t, "values", want, all.Single())
}
