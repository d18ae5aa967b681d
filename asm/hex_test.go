package asm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestParseHex(t *testing.T) {
	for _, text := range []string{
		"4801c0", "4801C0", "0x4801c0", "0X4801c0", "48 01 c0", " 48\t01\r\nc0\n", "0x48 0x01 0xc0", "4801 c0", "0x 4801c0",
	} {
		got, err := ParseHex(text, 3)
		if err != nil || !bytes.Equal(got, []byte{0x48, 0x01, 0xc0}) {
			t.Errorf("ParseHex(%q) = %x, %v", text, got, err)
		}
	}
}

func TestParseHexErrors(t *testing.T) {
	for _, c := range []struct {
		text         string
		line, column int
		tooLong      bool
	}{
		{text: ""},
		{text: " \n "},
		{text: "0x"},
		{text: "0x 0x"},
		{"4", 1, 1, false},
		{"480", 1, 3, false},
		{"48 0", 1, 4, false},
		{"4 8", 1, 1, false},
		{"48\n0 1", 2, 1, false},
		{"g8", 1, 1, false},
		{"48,01", 1, 3, false},
		{"48\n01\n4x", 3, 2, false},
		{"480x01", 1, 4, false},
		{"00x1", 1, 3, false},
		{"x48", 1, 1, false},
		{"é8", 1, 1, false},
		{"48é8", 1, 3, false},
		{"48é8x", 1, 3, false},
		{"48\xff", 1, 3, false},
		{"48\u00a001", 1, 3, false},
		{"-4801", 1, 1, false},
		{"00010203 04", 1, 10, true},
		{"0001020304", 1, 9, true},
		{"000102030", 1, 9, false}, // half a byte too much is half a byte first
	} {
		_, err := ParseHex(c.text, 4)
		var bad *HexError
		if !errors.As(err, &bad) {
			t.Errorf("ParseHex(%q): %v, want a *HexError", c.text, err)
			continue
		}
		if bad.Line != c.line || bad.Column != c.column || bad.TooLong != c.tooLong {
			t.Errorf("ParseHex(%q): line %d, column %d, too long %v, want %d, %d, %v",
				c.text, bad.Line, bad.Column, bad.TooLong, c.line, c.column, c.tooLong)
		}
		if bad.What == "" || bad.Remedy == "" {
			t.Errorf("ParseHex(%q): says %q and advises %q", c.text, bad.What, bad.Remedy)
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
			var bad *HexError
			if !errors.As(err, &bad) {
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
