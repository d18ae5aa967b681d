package asm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestParseHex(t *testing.T) {
	for _, text := range []string{
		"4801c0", "4801C0", "0x4801c0", "0X4801c0", "48 01 c0", " 48\t01\r\nc0\n", "0x48 0x01 0xc0", "4801 c0", "0x 4801c0",
	} {
		require.Equal(t, text, []byte{0x48, 0x01, 0xc0}, require.Get(ParseHex(text, 3))(t))
	}
}

func TestParseHexErrors(t *testing.T) {
	for place, texts := range map[string][]string{ // of at most 4 bytes
		"0:0": {"", " \n ", "0x", "0x 0x"},
		"1:1": {"4", "4 8", "g8", "x48", "é8", "-4801"},
		"1:3": {"480", "48,01", "00x1", "48é8", "48é8x", "48\xff", "48\u00a001"},
		"1:4": {"48 0", "480x01"},
		"1:9": {"000102030"}, // half a byte too much is half a byte first
		"2:1": {"48\n0 1"}, "3:2": {"48\n01\n4x"},
		"1:9 too long": {"0001020304"}, "1:10 too long": {"00010203 04"},
	} {
		for _, text := range texts {
			_, err := ParseHex(text, 4)
			bad, ok := errors.AsType[*HexError](err)
			if !ok || bad.What == "" || bad.Remedy == "" {
				t.Errorf("ParseHex(%q): %v, want a whole *HexError", text, err)
				continue
			}
			got := fmt.Sprintf("%d:%d", bad.Line, bad.Column)
			if bad.TooLong {
				got += " too long"
			}
			require.Equal(t, text, place, got)
		}
	}
}

// FuzzParseHex: what is accepted is what its digits say, and what is refused has a place within the text.
func FuzzParseHex(f *testing.F) {
	for _, s := range []string{"4801c0", "0x48 0x01", "4 8", "48g1", "é", "\xff\n00x", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 64
		code, err := ParseHex(text, limit)
		if err != nil {
			bad, ok := errors.AsType[*HexError](err)
			if !ok {
				t.Fatalf("%v is no *HexError", err)
			}
			if lines := strings.Split(text, "\n"); bad.Line > 0 && (bad.Line > len(lines) || bad.Column < 1 || bad.Column > len([]rune(lines[bad.Line-1]))) {
				t.Fatalf("%q: line %d, column %d is outside", text, bad.Line, bad.Column)
			}
			return
		}
		if len(code) == 0 || len(code) > limit {
			t.Fatalf("%q: %d bytes accepted", text, len(code))
		}
		var digits strings.Builder
		for _, word := range strings.Fields(text) {
			digits.WriteString(strings.TrimPrefix(strings.ToLower(word), "0x"))
		}
		if want := hex.EncodeToString(code); want != digits.String() {
			t.Fatalf("%q was read as %s", text, want)
		}
		again, err := ParseHex(hex.EncodeToString(code), limit)
		if err != nil || !bytes.Equal(again, code) {
			t.Fatalf("%x read again is %x, %v", code, again, err)
		}
	})
}
