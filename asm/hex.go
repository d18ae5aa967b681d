package asm

import (
	"encoding/hex"
	"fmt"
	"unicode/utf8"
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

const remedyPairs = "write each byte as two digits of 0-9, a-f, such as 4801c0"

// ParseHex reads a block of at most limit bytes from hexadecimal digits of either case.
// White space may stand between bytes, and 0x before them after white space or at the
// start. A byte must not be split: "4 8" could be one byte or two. The error is a *HexError.
func ParseHex(text string, limit int) ([]byte, error) {
	var (
		code  = make([]byte, 0, min(len(text)/2, limit))
		high  = -1 // the pending first digit of a byte
		group = 0  // characters since white space
		line  = 1
		col   = 0
		fail  = func(column int, remedy, format string, args ...any) ([]byte, error) {
			return nil, &HexError{Line: line, Column: column, What: fmt.Sprintf(format, args...), Remedy: remedy}
		}
	)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		col++
		digit := hexDigit(r)
		switch {
		case digit >= 0 && high < 0:
			high = digit
			group++
		case digit >= 0:
			if len(code) == limit {
				return nil, &HexError{
					Line: line, Column: col - 1, What: fmt.Sprintf("the block goes on after %d bytes", limit),
					Remedy: "no longer one can be profiled, cut it in pieces", TooLong: true,
				}
			}
			code = append(code, byte(high<<4|digit))
			high = -1
			group++
		case r == ' ' || r == '\t' || r == '\r' || r == '\n':
			if high >= 0 {
				return fail(col-1, remedyPairs, "the digit %q has no partner", text[i-1])
			}
			group = 0
			if r == '\n' {
				line, col = line+1, 0
			}
		case (r == 'x' || r == 'X') && group == 1 && high == 0:
			high = -1
			group++
		case r == 'x' || r == 'X':
			return fail(col, remedyPairs, "%q is not a hexadecimal digit, and 0x may only begin a group of digits", r)
		case r == utf8.RuneError && size == 1:
			return fail(col, remedyPairs, "byte %#02x is not a hexadecimal digit", text[i])
		default:
			return fail(col, remedyPairs, "%q is not a hexadecimal digit", r)
		}
		i += size
	}
	switch {
	case high >= 0:
		return fail(col, remedyPairs, "the digit %q has no partner", text[len(text)-1])
	case len(code) == 0:
		line = 0
		return fail(0, remedyPairs, "there is no hexadecimal digit")
	}
	return code, nil
}

func hexDigit(r rune) int {
	switch {
	case '0' <= r && r <= '9':
		return int(r - '0')
	case 'a' <= r && r <= 'f':
		return int(r-'a') + 10
	case 'A' <= r && r <= 'F':
		return int(r-'A') + 10
	}
	return -1
}

// DecodeHex is Decode of a block's digits, without spaces.
func DecodeHex(digits string) ([]Inst, error) {
	code, err := hex.DecodeString(digits)
	if err != nil {
		return nil, err
	}
	return Decode(code)
}
