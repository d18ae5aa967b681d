package asm

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// randomEncoding is 15 bytes that begin as an instruction of some map does, with prefixes. There is no lock among
// them, which most instructions forbid, and no REX before another prefix, which objdump shows by itself.
func randomEncoding(rng *rand.Rand) (code []byte) {
	add := func(some ...byte) { code = append(code, some...) }
	random := func() byte { return byte(rng.Uint32()) }
	legacy := func(escape ...byte) {
		for rng.IntN(3) == 0 && len(code) < 3 {
			add([]byte{0x66, 0x67, 0xf2, 0xf3, 0x64, 0x65, 0x2e, 0x3e}[rng.IntN(8)])
		}
		if rng.IntN(2) == 0 {
			add(0x40 | random()&15)
		}
		op := random()
		for len(escape) == 0 && isPrefixByte(op) {
			op = random()
		}
		add(append(escape, op)...)
	}
	switch rng.IntN(8) {
	case 0, 1:
		legacy()
	case 2:
		legacy(0x0f)
	case 3:
		legacy(0x0f, []byte{0x38, 0x3a}[rng.IntN(2)])
	case 4:
		add(0xc5, random(), random())
	case 5:
		add(0xc4, random()&^31|byte(1+rng.IntN(3)), random(), random())
	default:
		add(0x62, random()&^15|[]byte{1, 2, 3, 5, 6}[rng.IntN(5)], random()|4, random(), random())
	}
	for len(code) < maxLength {
		add(random())
	}
	return code
}

// TestRandomAgainstObjdump: what is decoded and may run is to objdump the same instruction, of the same length. What
// objdump accepts besides, since it checks fewer bits, is no danger. With BBPROF_LONG=1 it has other and far more of
// them each time.
func TestRandomAgainstObjdump(t *testing.T) {
	n, seed := 20_000, uint64(1)
	if os.Getenv("BBPROF_LONG") != "" {
		n, seed = 1_000_000, rand.Uint64()
	}
	if v, err := strconv.ParseUint(os.Getenv("BBPROF_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("BBPROF_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var list [][]byte
	for range n {
		code := randomEncoding(rng)
		if in := (Inst{}); in.decode(code) == nil && Refuse([]Inst{in}) == nil {
			list = append(list, code)
		}
	}
	compareAll(t, list)
}
