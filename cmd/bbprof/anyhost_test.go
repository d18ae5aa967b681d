package main

import (
	"strings"
	"testing"
)

// TestAnyHost: of two hosts' reports the same is left; without a line, or with another, it is not.
func TestAnyHost(t *testing.T) {
	one := `bbprof can measure here
cpu         AMD EPYC: Zen 4
clock       TSC
            2596 MHz
what the method asks of a CPU
  aliased pages at no cost  not met       loads are slower
                                          so pages get a frame each
    cycles per iteration      one frame  two frames
    store, then load               1.51           ?
    ? store, then load, two frames: nonlinear: so
what could be better
  1. no counters
`
	other := `bbprof can measure here
cpu         Intel: Skylake
clock       core cycles
what the method asks of a CPU
  aliased pages at no cost  partly met    loads cost nothing
    cycles per iteration      one frame  two frames
    store, then load              12.10        1.00
nothing else to mend
`
	if withoutDigits(one) != withoutDigits(other) {
		t.Errorf("%s\nand\n%s", withoutDigits(one), withoutDigits(other))
	}
	for _, line := range []string{"cpu  ", "  aliased", "    store", "bbprof can"} {
		if changed := strings.Replace(one, line, line[:len(line)-1]+"x ", 1); withoutDigits(changed) == withoutDigits(other) {
			t.Errorf("a change of %q goes unnoticed", line)
		}
	}
}
