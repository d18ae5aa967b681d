package asm

import (
	"regexp"
	"strings"
)

// Two disassemblers spell one instruction in two ways. normalOurs and normalObjdump bring
// both to one; what is left must be equal.

var (
	spaces      = regexp.MustCompile(`\s+`)
	comment     = regexp.MustCompile(`\s*(#|<).*$`)
	zeroDisp    = regexp.MustCompile(`\+0x0\]`)
	broadcastTo = regexp.MustCompile(`\{1to\d+\}`)
	rounding    = regexp.MustCompile(`,?\{(r[nduz]-)?sae\}`)
	hexAddress  = regexp.MustCompile(`\b(ds|fs|gs|es|cs|ss):(0x[0-9a-f]+)`)
	dataSegment = regexp.MustCompile(`\b(ds|es|cs|ss):`)
)

func normalOurs(s string) string {
	s = strings.ReplaceAll(s, ", ", ",")
	if broadcastTo.MatchString(s) {
		s = strings.Replace(s, " ptr ", " bcst ", 1)
		s = broadcastTo.ReplaceAllString(s, "")
	}
	s = rounding.ReplaceAllString(s, "")
	return finishNormal(s)
}

func normalObjdump(s string, offset int) string {
	s = comment.ReplaceAllString(s, "")
	s = strings.ToLower(strings.TrimSpace(spaces.ReplaceAllString(s, " ")))
	s = hexAddress.ReplaceAllString(s, "$1:[$2]")
	s = dataSegment.ReplaceAllString(s, "")
	s = broadcastTo.ReplaceAllString(s, "")
	s = rounding.ReplaceAllString(s, "")
	return finishNormal(s)
}

func finishNormal(s string) string {
	s = strings.TrimSpace(zeroDisp.ReplaceAllString(s, "]"))
	return s
}
