package asm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// comparison holds kinds of difference: one of each is enough to see.
type comparison map[string]bool

// compare holds the first instruction of code against what objdump made of it.
func (seen comparison) compare(t *testing.T, code []byte, want dumped, found bool) {
	var in Inst
	err := in.decode(code)
	bad := !found || isBad(want.text)
	if err != nil && bad {
		return
	}
	got, theirs := fmt.Sprintf("(%v)", err), normalObjdump(want.text)
	if err == nil {
		got = normalOurs(in.Text())
	}
	if err == nil && !bad && got == theirs && len(in.Bytes) == want.length || knownDifference(code, &in, err, want) != "" {
		return
	}
	kind := firstWord(got) + "/" + firstWord(theirs)
	if !seen[kind] && len(seen) < 100 {
		t.Errorf("%x: %d bytes %q, objdump %d bytes %q", code, len(in.Bytes), got, want.length, theirs)
	}
	seen[kind] = true
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// compareAll holds encodings, each on its own, against objdump; a fifth of them with -short.
func compareAll(t *testing.T, encodings [][]byte) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		encodings = slices.DeleteFunc(encodings, func([]byte) bool { return rand.IntN(5) > 0 })
	}
	seen := comparison{}
	dumps := objdumpSlots(t, encodings)
	for i, code := range encodings {
		want, found := dumps[i][0]
		seen.compare(t, code, want, found)
	}
}

func TestCorpusAgainstObjdump(t *testing.T) {
	blocks := require.CorpusSample(t, 4)
	if blocks == nil {
		require.Skip(t, require.Corpus, "no development corpus beside this checkout")
	}
	dumps := objdumpSlots(t, blocks)
	seen := comparison{}
	for i, block := range blocks {
		objdumpAt := 0
		for offset := 0; offset < len(block); {
			want, found := dumps[i][offset]
			if found || offset >= objdumpAt { // else objdump joined this one to an fwait
				seen.compare(t, block[offset:], want, found)
			}
			var in Inst
			if in.decode(block[offset:]) != nil {
				break
			}
			if in.Mnemonic == "fwait" {
				objdumpAt = offset + want.length
			}
			offset += len(in.Bytes)
		}
	}
}

// memoryTails are ModRM, SIB and displacement of memory operands, reg still 0. Sign bits are set here and there, so
// that a lost sign extension shows.
var memoryTails = [][]byte{
	{0x03},                               // [rbx]
	{0x44, 0x8b, 0x10},                   // [rbx+rcx*4+0x10]
	{0x85, 0x80, 0xff, 0xff, 0xff},       // [rbp-0x80], disp32
	{0x05, 0x10, 0x00, 0x00, 0xf0},       // [rip-0xffffff0]
	{0x04, 0x25, 0x00, 0x10, 0x40, 0x00}, // [0x401000]
	{0x04, 0x24},                         // [rsp]
}

// immediateTail stands after them all, for whatever immediate there may be. What is left of it is few lines of objdump's.
var immediateTail = []byte{0x85, 0x90, 0x90, 0x90, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}

// encode puts ModRM.reg into a tail and everything together.
func encode(prefix []byte, opcode, reg byte, tail []byte) []byte {
	code := append(slices.Clone(prefix), opcode)
	code = append(code, tail[0]|reg<<3)
	code = append(code, tail[1:]...)
	return append(code, immediateTail...)[:min(maxLength, len(code)+len(immediateTail))]
}

// legacyEncodings enumerates one opcode map: every opcode after every mandatory prefix and some REX, all values of
// ModRM.reg, each in a register and a memory form after one REX or another, and every way to write an address.
func legacyEncodings(escape ...byte) [][]byte {
	var list [][]byte
	for _, mandatory := range [][]byte{nil, {0x66}, {0xf3}, {0xf2}} {
		for i, rex := range [][]byte{nil, {0x48}, {0x45}} {
			prefix := slices.Concat(mandatory, rex, escape)
			for op := range 256 {
				if len(escape) == 0 && isPrefixByte(byte(op)) {
					continue
				}
				if len(escape) == 1 && (op == 0x38 || op == 0x3a) {
					continue
				}
				for reg := range byte(8) {
					if len(escape) == 2 && reg > 3 { // no groups there but those of Key Locker, up to 3
						break
					}
					tail := []byte{0xc1}
					if (int(reg)+i)%2 == 0 {
						tail = memoryTails[int(reg)%len(memoryTails)]
					}
					list = append(list, encode(prefix, byte(op), reg, tail))
				}
			}
		}
	}
	return list
}

func isPrefixByte(b byte) bool {
	switch b {
	case 0x0f, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x62, 0xc4, 0xc5:
		return true
	}
	return b&0xf0 == 0x40
}

func TestOneByteMapAgainstObjdump(t *testing.T) { compareAll(t, legacyEncodings()) }
func TestMap0FAgainstObjdump(t *testing.T)      { compareAll(t, legacyEncodings(0x0f)) }
func TestMap0F38AgainstObjdump(t *testing.T)    { compareAll(t, legacyEncodings(0x0f, 0x38)) }
func TestMap0F3AAgainstObjdump(t *testing.T)    { compareAll(t, legacyEncodings(0x0f, 0x3a)) }

// TestFullModRMAgainstObjdump has every ModRM byte of the x87 escapes and of the groups.
func TestFullModRMAgainstObjdump(t *testing.T) {
	var list [][]byte
	for modrm := range 256 {
		for op := range 8 {
			list = append(list, append([]byte{0xd8 + byte(op), byte(modrm)}, immediateTail...))
		}
		for _, op := range []byte{0x00, 0x01, 0x18, 0x1e, 0xae, 0xba, 0xc7} {
			for _, mandatory := range [][]byte{nil, {0x66}, {0xf3}, {0xf2}} {
				list = append(list, slices.Concat(mandatory, []byte{0x0f, op, byte(modrm)}, immediateTail))
			}
		}
		for _, op := range []byte{0x8f, 0xc6, 0xc7, 0xf6, 0xf7, 0xfe, 0xff} {
			list = append(list, append([]byte{op, byte(modrm)}, immediateTail...))
		}
	}
	compareAll(t, list)
}

func TestVEXAgainstObjdump(t *testing.T) {
	var list [][]byte
	for opcodeMap := byte(1); opcodeMap <= 3; opcodeMap++ {
		for op := range 256 {
			for pp := range byte(4) {
				for wl := range byte(4) {
					for reg := range byte(8) {
						if reg > 1 && !isVEXGroup(byte(op)) {
							break
						}
						w, l := wl>>1, wl&1
						for _, vvvv := range []byte{0, 13} { // none, which instructions with two operands demand, and a register
							prefix := []byte{0xc4, 0xe0 | opcodeMap, w<<7 | (^vvvv&15)<<3 | l<<2 | pp}
							tail := []byte{0xc2}
							if (reg^l)&1 == 0 {
								tail = memoryTails[(int(reg)/2+op)%len(memoryTails)]
							}
							list = append(list, encode(prefix, byte(op), reg, tail))
						}
					}
				}
			}
		}
	}
	compareAll(t, list)
}

// isVEXGroup reports whether ModRM.reg is part of an opcode in some VEX map.
func isVEXGroup(op byte) bool { return op >= 0x71 && op <= 0x73 || op == 0xae || op == 0xf3 }

func TestEVEXAgainstObjdump(t *testing.T) {
	for _, opcodeMap := range []byte{1, 2, 3, 5, 6} {
		t.Run(fmt.Sprintf("map%d", opcodeMap), func(t *testing.T) { compareAll(t, evexEncodings(opcodeMap)) })
	}
}

// evexEncodings enumerates one map: every opcode, pp and W, each vector length in a memory and a register form, and one
// of the lengths with broadcast and with rounding; with vvvv unused, and where the instruction has it, in use.
func evexEncodings(opcodeMap byte) [][]byte {
	var list [][]byte
	for op := range 256 {
		for pp := range byte(4) {
			for wl := range byte(6) {
				for variant := range byte(4) {
					w, l := wl/3, wl%3
					reg := (wl + variant*3 + byte(op)) & 7
					memory, b := variant&1 == 0, variant>>1
					if b == 1 && l != (byte(op)+pp)%3 {
						continue
					}
					tail := []byte{0xc2}
					if memory {
						tail = memoryTails[(int(reg)+op)%len(memoryTails)]
					}
					if isShiftGroup(opcodeMap, byte(op)) {
						for digit := range byte(8) {
							list = append(list, evexEncode(opcodeMap, byte(op), pp, w, l, b, 20, 3, digit, tail))
						}
					}
					list = append(list, evexEncode(opcodeMap, byte(op), pp, w, l, b, 0, 0, reg, tail))
					code := evexEncode(opcodeMap, byte(op), pp, w, l, b, 20, 3, reg, tail)
					var in Inst
					if in.decode(code) == nil {
						list = append(list, code)
					}
				}
			}
		}
	}
	return list
}

func isShiftGroup(opcodeMap, op byte) bool { return opcodeMap == 1 && op >= 0x71 && op <= 0x73 }

// evexEncode writes the prefix: R', R, X and B are for registers below 8, but B is used.
func evexEncode(opcodeMap, op, pp, w, l, b, vvvv, opmask, reg byte, tail []byte) []byte {
	p0 := 0xd0 | opcodeMap
	p1 := w<<7 | (^vvvv&15)<<3 | 4 | pp
	p2 := l<<5 | b<<4 | (^vvvv>>4&1)<<3 | opmask
	return encode([]byte{0x62, p0, p1, p2}, op, reg, tail)
}

// TestAddressingAgainstObjdump has every ModRM byte and many a SIB, with REX, address size and segment prefixes.
func TestAddressingAgainstObjdump(t *testing.T) {
	var list [][]byte
	add := func(prefix, opcode []byte) {
		for modrm := range 0xc0 {
			sibs := []byte{0x85}
			if modrm&7 == 4 {
				sibs = []byte{0x00, 0x24, 0x25, 0x64, 0xa5, 0xe8, 0x4c, 0x91, 0xfd, 0x05, 0x2d}
			}
			for _, sib := range sibs {
				tail := []byte{byte(modrm), sib, 0x10, 0x80, 0xff, 0xff, 0x90, 0x90}
				list = append(list, slices.Concat(prefix, opcode, tail))
			}
		}
	}
	for _, prefix := range [][]byte{nil, {0x67}, {0x64}, {0x67, 0x65}} {
		for _, rex := range []byte{0x40, 0x41, 0x42, 0x4f} {
			add(prefix, []byte{rex, 0x8b})
		}
		add(prefix, []byte{0x8d})
		add(prefix, []byte{0xc4, 0x01, 0x30, 0x58}) // vaddps with all register bits
		add(prefix, []byte{0x62, 0x01, 0x1c, 0x40, 0x58})
		add(prefix, []byte{0x62, 0xf1, 0x7c, 0x58, 0x58}) // broadcast
	}
	compareAll(t, list)
}

// TestVSIBAgainstObjdump has every gather and scatter with all lengths and bases.
func TestVSIBAgainstObjdump(t *testing.T) {
	var list [][]byte
	for _, op := range []byte{0x90, 0x91, 0x92, 0x93, 0xa0, 0xa1, 0xa2, 0xa3} {
		for w := range byte(2) {
			for _, tail := range [][]byte{{0x04, 0x8a}, {0x4c, 0xe3, 0x10}, {0x84, 0x20, 1, 2, 3, 0x84}, {0x04, 0x55, 1, 0, 0, 0}, {0x03}} {
				for l := range byte(3) {
					list = append(list, slices.Concat([]byte{0x62, 0xf2, w<<7 | 0x7d, l<<5 | 0x0a, op}, tail, immediateTail[:4]))
					list = append(list, slices.Concat([]byte{0x62, 0xd2, w<<7 | 0x7d, l<<5 | 0x03, op}, tail, immediateTail[:4]))
				}
				for l := range byte(2) {
					list = append(list, slices.Concat([]byte{0xc4, 0xa2, w<<7 | l<<2 | 0x51, op}, tail, immediateTail[:4]))
				}
			}
		}
	}
	compareAll(t, list)
}
