package asm

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// HexError says where a text stops being a block, and what to do about it.
type HexError struct {
	Line, Column int    // of the culprit in the text, from 1, in characters; 0 if it is nowhere
	What         string // what is wrong there
	Remedy       string
	TooLong      bool // it is a block, of more bytes than allowed
}

func (e *HexError) Error() string {
	s := e.What
	switch {
	case e.Line > 1:
		s = fmt.Sprintf("line %d, character %d: %s", e.Line, e.Column, s)
	case e.Column > 0:
		s = fmt.Sprintf("character %d: %s", e.Column, s)
	}
	return s + "; " + e.Remedy
}

// hexDigits are the digits of either case.
const hexDigits = "0123456789abcdefABCDEF"

// ParseHex reads a block of at most limit bytes from hexadecimal digits of either case. White space may stand between
// bytes, and 0x before them after white space or at the start. A byte must not be split: "4 8" could be one byte or
// two. The error is a *HexError.
func ParseHex(text string, limit int) ([]byte, error) {
	code := make([]byte, 0, min(len(text)/2, limit))
	high := -1 // the pending first digit of a byte
	group := 0 // characters since white space
	line, col := 1, 0
	fail := func(column int, format string, args ...any) ([]byte, error) {
		return nil, &HexError{Line: line, Column: column, What: fmt.Sprintf(format, args...),
			Remedy: "write each byte as two digits of 0-9, a-f, such as 4801c0"}
	}
	for i, r := range text {
		col++
		digit := strings.IndexRune(hexDigits, r)
		if digit > 15 {
			digit -= 6
		}
		group++
		switch {
		case digit >= 0 && high < 0:
			high = digit
		case digit >= 0 && len(code) == limit:
			return nil, &HexError{Line: line, Column: col - 1, What: fmt.Sprintf("the block goes on after %d bytes", limit),
				Remedy: "no longer one can be profiled, cut it in pieces", TooLong: true}
		case digit >= 0:
			code = append(code, byte(high<<4|digit))
			high = -1
		case strings.ContainsRune(" \t\r\n", r):
			if high >= 0 {
				return fail(col-1, "the digit %q has no partner", text[i-1])
			}
			group = 0
			if r == '\n' {
				line, col = line+1, 0
			}
		case (r == 'x' || r == 'X') && group == 2 && high == 0:
			high = -1
		case r == 'x' || r == 'X':
			return fail(col, "%q is not a hexadecimal digit, and 0x may only begin a group of digits", r)
		case r == '\ufffd' && !strings.HasPrefix(text[i:], "\ufffd"):
			return fail(col, "byte %#02x is not a hexadecimal digit", text[i])
		default:
			return fail(col, "%q is not a hexadecimal digit", r)
		}
	}
	switch {
	case high >= 0:
		return fail(col, "the digit %q has no partner", text[len(text)-1])
	case len(code) == 0:
		line = 0
		return fail(0, "there is no hexadecimal digit")
	}
	return code, nil
}

// DecodeHex is Decode of a block's digits, without spaces.
func DecodeHex(digits string) ([]Inst, error) {
	code, err := hex.DecodeString(digits)
	if err != nil {
		return nil, err
	}
	return Decode(code)
}
