package asm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestSteady(t *testing.T) {
	log := func(values ...byte) (b []byte) {
		for _, v := range values {
			b = append(b, bytes.Repeat([]byte{v}, 8)...)
		}
		return b
	}
	const load = "488b03"
	for _, c := range []struct {
		name string
		code string
		log  []byte
		want int
	}{
		{"one copy", load, log(1), 0},
		{"all alike", load, log(1, 1, 1), 0},
		{"the first differs", load, log(1, 2, 2), 1},
		{"the second differs", load, log(1, 2, 1), 2},
		{"the last differs", load, log(1, 1, 2), 2},
		{"lodsq; std: the second copy goes down", "48adfd", log(1, 1, 1), 1},
	} {
		p := require.Get(NewProbe(mustDecode(t, c.code), Features{}, 0))(t)
		require.Equal(t, "bytes of log", 8, p.LogSize())
		require.Equal(t, c.name, c.want, p.Steady(c.log, len(c.log)/8))
	}
}

// Copies that are extrapolated are those that would have been emitted.
func TestRepeat(t *testing.T) {
	copies := func(e *Emitter, from, to int) {
		for k := from; k < to; k++ {
			e.Store(0x6000_0030_0000+uint64(8*k), RBX) // moves on
			e.Load(RCX, 0x6000_0001_0000)              // stays
			e.Raw(0x90, 0x90, 0x90)
			e.RawRelative(3, 0x48, 0x8b, 0x05, byte(k), 0, 0, 0) // as if it were relative
		}
	}
	for _, n := range []int{0, 1, 2, 3, 7, 100} {
		want, got := NewEmitter(0x6000_0010_0000), NewEmitter(0x6000_0010_0000)
		for _, e := range []*Emitter{want, got} {
			e.Load(RAX, 0x6000_0001_0008) // a field before the copies
		}
		first := got.PC()
		copies(want, 0, 2+n)
		copies(got, 0, 1)
		second := got.PC()
		copies(got, 1, 2)
		got.Repeat(first, second, n)
		require.Equal(t, fmt.Sprint(n, " more copies"), want.Bytes(), got.Bytes())
	}
	defer func() {
		if recover() == nil {
			t.Error("copies of different lengths pass")
		}
	}()
	e := NewEmitter(0)
	e.Nop(1)
	e.Nop(2)
	e.Repeat(0, 1, 1)
}

// A masked access is in one of the lists, whatever the mask.
func TestSuppressed(t *testing.T) {
	insts := mustDecode(t, "62f17cc9104701 488b03 c4e2752c4720") // vmovups zmm0{k1}{z}, [rdi+64]; mov rax, [rbx]; vmaskmovps ymm0, ymm1, [rdi+32]
	p := require.Get(NewProbe(insts, Features{AVX: true, AVX512: true, AVX512BW: true}, 0))(t)
	log := make([]byte, 2*p.LogSize())
	log[8] = 1 // the first copy's opmask; all vectors are 0
	count := func(all []Access) (insts []int) {
		for _, a := range all {
			insts = append(insts, 10*a.Copy+a.Inst)
		}
		return insts
	}
	require.Equal(t, "made", []int{0, 1, 11}, count(p.Accesses(log, 2, &Regs{})))
	require.Equal(t, "suppressed", []int{2, 10, 12}, count(p.Suppressed(log, 2, &Regs{})))
}
