package asm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Two disassemblers spell one instruction in two ways. normalOurs and normalObjdump bring both to one; what is left
// must be equal.

var (
	spaces       = regexp.MustCompile(`\s+`)
	comment      = regexp.MustCompile(`\s*(#|<).*$`)
	noIndex      = regexp.MustCompile(`\+[er]iz\*[1248]`)
	noBase       = regexp.MustCompile(`\[([er])iz\*[1248]([+-]0x[0-9a-f]+)\]`)
	suffixed     = regexp.MustCompile(`^((?:rep |repe |repne )?(?:retf?|iret|enter|leave|pushf|popf|fldenv|fnstenv|frstor|fnsave))[wq]( |$)`)
	zeroDisp     = regexp.MustCompile(`\+0x0\]`)
	broadcastTo  = regexp.MustCompile(`\{1to\d+\}`)
	rounding     = regexp.MustCompile(`,?\{(r[nduz]-)?sae\}`)
	hexAddress   = regexp.MustCompile(`\b(ds|fs|gs|es|cs|ss):(0x[0-9a-f]+)`)
	dataSegment  = regexp.MustCompile(`\b(ds|es|cs|ss):`)
	negativeDisp = regexp.MustCompile(`\+(0x[89a-f][0-9a-f]{15})\]`)
	absolute     = regexp.MustCompile(`^mov ([er]?a[lx],.*\[0x[0-9a-f]+\]|.*\[0x[0-9a-f]+\],[er]?a[lx])$`)
	equalToMask  = regexp.MustCompile(`^vpcmpeq([bwdq]) (k.*)$`)
	pointer      = regexp.MustCompile(`\b[a-z]+ ptr `)
	// By immediate: Intel SDM vol. 2, table 3-1.
	predicates = strings.Fields("eq lt le unord neq nlt nle ord eq_uq nge ngt false neq_oq ge gt true " +
		"eq_os lt_oq le_oq unord_s neq_us nlt_uq nle_uq ord_s eq_us nge_uq ngt_uq false_os neq_os ge_oq gt_oq true_us")
	compareOp   = regexp.MustCompile(`^(v?cmp)(` + strings.Join(predicates, "|") + `)([ps][sdh]) (.*)$`)
	integerOp   = regexp.MustCompile(`^(vpcmp)(eq|lt|le|neq|nlt|nle)(u?[bwdq]) (.*)$`)
	carrylessOp = regexp.MustCompile(`^(v?pclmul)([lh])q([lh])qdq (.*)$`)
)

// noMeaning are the prefixes that objdump names though they do nothing to the instruction.
var noMeaning = []string{
	"data16", "addr32", "cs", "ds", "es", "ss", "fs", "gs", "bnd", "notrack", "xacquire", "xrelease",
}

// unsized are the instructions whose memory objdump gives no size.
var unsized = []string{
	"lddqu", "vlddqu", "sgdt", "sidt", "lgdt", "lidt", "fxsave", "fxrstor", "wrssd", "wrssq", "wrussd", "wrussq",
	"invpcid", "movdir64b", "enqcmd", "enqcmds", "ldtilecfg", "sttilecfg", "bndmov", "bndcl", "bndcu", "bndcn",
	"aesenc128kl", "aesdec128kl", "aesenc256kl", "aesdec256kl",
	"aesencwide128kl", "aesdecwide128kl", "aesencwide256kl", "aesdecwide256kl",
}

// respelled are other names for the same.
var respelled = strings.NewReplacer(
	"repz ", "repe ", "repnz ", "repne ", "cmpxchg ", "cmpxchg ", "xchg ax,ax", "nop", "xchg rax,rax", "nop", "oword ptr", "xmmword ptr",
	"sysretd", "sysret", "sysretq", "sysret", "sysexitd", "sysexit", "sysexitq", "sysexit",
	"pushw ", "push ", "popw ", "pop ", "xlat byte ptr ds:[rbx]", "xlat", "xlat byte ptr ds:", "xlat byte ptr ",
	"pcmpestrmq", "pcmpestrm", "pcmpestriq", "pcmpestri", "(8087 only)", "", "(287 only)", "",
)

func normalOurs(s string) string {
	s = strings.ReplaceAll(s, ", ", ",")
	if broadcastTo.MatchString(s) {
		s = strings.Replace(s, " ptr ", " bcst ", 1)
		s = broadcastTo.ReplaceAllString(s, "")
	}
	if m := equalToMask.FindStringSubmatch(s); m != nil { // objdump calls vpcmpd with 0 the same
		s = "vpcmp" + m[1] + " " + m[2] + ",0x0"
	}
	return finishNormal(s)
}

func normalObjdump(s string) string {
	s = comment.ReplaceAllString(s, "")
	s = strings.ToLower(strings.TrimSpace(spaces.ReplaceAllString(s, " ")))
	s = dropPrefixes(s)
	s = respelled.Replace(s)
	s = strings.TrimPrefix(strings.TrimPrefix(s, "{vex} "), "{evex} ")
	s = strings.Replace(s, "movabs ", "mov ", 1)
	s = noBase.ReplaceAllStringFunc(s, func(m string) string {
		parts := noBase.FindStringSubmatch(m)
		v, err := strconv.ParseInt(parts[2], 0, 64)
		if err != nil {
			return m
		}
		if parts[1] == "e" {
			v = int64(uint32(v))
		}
		return fmt.Sprintf("[%#x]", uint64(v))
	})
	s = noIndex.ReplaceAllString(s, "")
	s = hexAddress.ReplaceAllString(s, "$1:[$2]")
	s = dataSegment.ReplaceAllString(s, "")
	s = negativeDisp.ReplaceAllStringFunc(s, func(m string) string {
		v, err := strconv.ParseUint(m[3:len(m)-1], 16, 64)
		if err != nil {
			return m
		}
		return fmt.Sprintf("-%#x]", -v)
	})
	s = broadcastTo.ReplaceAllString(s, "")
	s = suffixed.ReplaceAllString(s, "$1$2")
	s = pseudoOp(s)
	return finishNormal(s)
}

// dropPrefixes leaves of the prefixes that objdump names only those that mean something.
func dropPrefixes(s string) string {
	repeat := ""
	for {
		first, rest, ok := strings.Cut(s, " ")
		switch {
		case ok && strings.HasPrefix(first, "rep"):
			repeat = first + " "
		case !ok || !slices.Contains(noMeaning, first) && !strings.HasPrefix(first, "rex"):
			return repeat + s
		}
		s = rest
	}
}

// pseudoOp turns the names that objdump gives to compares back into an immediate.
func pseudoOp(s string) string {
	if !strings.Contains(s, "cmp") && !strings.Contains(s, "clmul") {
		return s
	}
	if first, rest, _ := strings.Cut(s, " "); strings.HasPrefix(first, "rep") {
		return first + " " + pseudoOp(rest)
	}
	if m := compareOp.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("%s%s %s,%#x", m[1], m[3], m[4], slices.Index(predicates, m[2]))
	}
	if m := integerOp.FindStringSubmatch(s); m != nil && strings.HasPrefix(m[4], "k") {
		n := slices.Index([]string{"eq", "lt", "le", "false", "neq", "nlt", "nle"}, m[2])
		return fmt.Sprintf("%s%s %s,%#x", m[1], m[3], m[4], n)
	}
	if m := carrylessOp.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("%sqdq %s,%#x", m[1], m[4], strings.Index("lh", m[2])|strings.Index("lh", m[3])<<4)
	}
	return s
}

var stringOps = []string{"movs", "cmps", "stos", "lods", "scas", "ins", "outs"}

func finishNormal(s string) string {
	s = zeroDisp.ReplaceAllString(s, "]")
	s = rounding.ReplaceAllString(s, "")
	fields := strings.Fields(s)
	if len(fields) > 1 && strings.HasPrefix(fields[0], "rep") && !slices.Contains(stringOps, fields[1]) {
		_, s, _ = strings.Cut(s, " ")
	}
	name, _, _ := strings.Cut(s, " ")
	if slices.Contains(unsized, strings.TrimSuffix(name, "64")) {
		s = pointer.ReplaceAllString(s, "")
	}
	if absolute.MatchString(s) { // mov to and from an absolute address of 8 bytes
		s = pointer.ReplaceAllString(s, "")
	}
	return strings.TrimSpace(s)
}
