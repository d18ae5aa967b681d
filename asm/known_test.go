package asm

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// isBad reports whether objdump found no instruction.
func isBad(text string) bool {
	return badMark.MatchString(text) || strings.HasPrefix(text, ".byte")
}

var (
	badMark       = regexp.MustCompile(`[({-]bad[)}]|\?`)
	widerSource   = regexp.MustCompile(`^(mov [c-gs]s|lar \w+|lsl \w+|movsxd \w?\w[xpi]|movsxd r\d+w),([er]\w+|dword ptr .*)$`)
	farPointer    = regexp.MustCompile(`^(l[sfg]s|call|jmp) .*f?d?word ptr`)
	nearBranch    = regexp.MustCompile(`^(j\w+|call)$`)
	ignoredLength = regexp.MustCompile(`^vmovs[sdh] [yz]mm`)
	maskOperand   = regexp.MustCompile(`, k[0-7](, 0x[0-9a-f]+)?$`)
	extinct       = regexp.MustCompile(`^(vpermil2p|vp4dp|v4fn?madd|vexp2p|vrcp28|vrsqrt28)`)
	forbidden     = regexp.MustCompile(`^(data16|repn?z|bnd|repn?e) |^(rex\.\w+ )?(data16|repn?z) `)
	privileged    = regexp.MustCompile(`^(tdcall|seam\w+|wrmsrlist|rdmsrlist)`)
)

// newer are the instructions that objdump 2.40 has not heard of.
var newer = []string{
	"lkgs", "erets", "eretu", "vsha512rnds2", "vsha512msg1", "vsha512msg2", "vsm3msg1", "vsm3msg2", "vsm3rnds2",
	"vsm4key4", "vsm4rnds4", "vpdpwuud", "vpdpwuuds", "vpdpwusd", "vpdpwusds", "vpdpwsud", "vpdpwsuds",
}

// noPrefixOnly are instructions whose manual page says NP, and that objdump shows with a 66, f2 or VEX.pp.
var noPrefixOnly = []string{
	"vzeroupper", "vzeroall", "vldmxcsr", "vstmxcsr", "fxsave", "fxsave64", "fxrstor", "fxrstor64", "ldmxcsr", "stmxcsr",
}

// besideF3 are instructions with a mandatory f2 or f3 that a 66 beside it does not change.
var besideF3 = []string{"movdq2q", "movq2dq", "rdfsbase", "rdgsbase", "wrfsbase", "wrgsbase"}

// aliases are encodings that processors execute and objdump does not list.
var aliases = []string{"fstp", "fcom", "fcomp", "fxch", "mfence", "sfence", "lfence", "nop", "wbinvd", "vmmcall"}

// knownDifference explains where this decoder and objdump 2.40 differ on purpose, or says nothing.
func knownDifference(code []byte, in *Inst, err error, want dumped) string {
	theirs := normalObjdump(want.text)
	bad := isBad(want.text)
	switch {
	case in.Mnemonic == "vmmcall" && theirs == "vmgexit":
		return "f2 0f 01 d9, which the manual does not list"
	case in.raw.opsize16 && slices.Contains(besideF3, in.Mnemonic) && len(in.Bytes) == want.length:
		return "66 beside the mandatory prefix, which objdump takes for a size"
	case in.Mnemonic == "xchg" && theirs == "nop":
		return "xchg of rax with itself, which is no nop to the decoder where ModRM names it"
	case strings.HasSuffix(in.Mnemonic, "pclmulqdq") && in.raw.imm[0]&^0x11 != 0 && len(in.Bytes) == want.length:
		return "an immediate of pclmulqdq with ignored bits, which objdump names as if they counted"
	case in.Mnemonic == "fwait" && want.length > 1:
		return "objdump joins fwait and the instruction after it"
	case bad && slices.Contains(newer, in.Mnemonic):
		return "newer than objdump 2.40"
	case bad && err == nil && in.raw.enc == encLegacy && slices.Contains(aliases, in.Mnemonic):
		return "an alias that processors execute and objdump does not list"
	case widerSource.MatchString(theirs) && len(in.Bytes) == want.length:
		return "objdump names a 16-bit source by 32 bits"
	case farPointer.MatchString(theirs) && in.raw.w && len(in.Bytes) == want.length:
		return "a far pointer with REX.W: 10 bytes by Intel's manual, 6 by AMD's"
	case in.raw.opsize16 && nearBranch.MatchString(in.Mnemonic):
		return "66 before a near branch, which Intel ignores and AMD does not"
	case bad && err == nil && in.raw.enc == encEVEX && in.raw.evexB && in.raw.form.bIgnored:
		return "EVEX.b, which a Cascade Lake ignores where an integer converts exactly"
	case bad && err == nil && maskOperand.MatchString(in.Text()) && in.raw.b != 0:
		return "EVEX.B or VEX.B, which a Cascade Lake ignores for an opmask"
	case errors.Is(err, errReserved) && in.raw.opmask != 0 && in.raw.form.noMask:
		return "an opmask where the instruction takes none; a Cascade Lake raises #UD"
	case errors.Is(err, errReserved) && strings.Contains(theirs, " bcst "):
		return "EVEX.b where the instruction has no broadcast"
	case ignoredLength.MatchString(theirs):
		return "objdump takes VEX.L, which is ignored, for the size of the register"
	case strings.HasPrefix(theirs, "prefetchit"):
		return "a hint that is a nop to all but the newest processors"
	case err != nil && extinct.MatchString(theirs):
		return "XOP and Xeon Phi, which no table here holds"
	case err != nil && neighbourIs(code, firstWord(theirs)):
		return "EVEX.W, pp, b, L or mod that objdump does not check and a Cascade Lake does (SIGILL)"
	case err != nil && strings.HasPrefix(theirs, "vpdpb") && in.raw.enc == encEVEX:
		return "a VEX instruction that objdump accepts with EVEX"
	case err != nil && strings.HasPrefix(theirs, "extrq"):
		return "a ModRM digit that objdump does not check"
	case errors.Is(err, errTruncated):
		return "the block ends inside it, and objdump reads on"
	case in.raw.enc == encLegacy && in.raw.rep == 0xf2 && bad && strings.HasPrefix(in.Mnemonic, "bs"):
		return "f2 before bsf and bsr, which does nothing"
	case want.length == 1 && strings.HasPrefix(theirs, "rex"):
		return "objdump shows a REX before fwait as an instruction"
	case strings.HasPrefix(in.Mnemonic, "eret"):
		return "newer than objdump 2.40"
	case strings.HasPrefix(in.Mnemonic, "bnd") || strings.HasPrefix(theirs, "bnd"):
		return "MPX, which is a no-op wherever it is off"
	case err != nil && (privileged.MatchString(theirs)):
		return "TDX and lists of MSRs, which no table here holds"
	case err != nil && (forbidden.MatchString(want.text) || slices.Contains(noPrefixOnly, strings.Fields(theirs)[0]) || theirs == "vmgexit"):
		return "a prefix that the manual forbids (NP); objdump shows it and carries on"
	}
	return ""
}

// neighbourIs reports whether an EVEX encoding that differs in W, pp, b, L or mod alone is the instruction that
// objdump named: then the tables hold it, and this one is reserved.
func neighbourIs(code []byte, mnemonic string) bool {
	if code[0] != 0x62 {
		return false
	}
	for bits := range byte(128) {
		other := slices.Clone(code)
		other[2] ^= bits & 1 << 7      // W
		other[2] ^= bits >> 1 & 3      // pp
		other[3] &^= bits & 8 << 1     // b
		other[3] &^= bits & 16 << 1    // L
		other[3] &^= bits & 16 << 2    // L'
		other[5] ^= bits >> 5 & 3 << 6 // mod
		var in Inst
		if in.decode(other) == nil && in.Mnemonic == mnemonic {
			return true
		}
	}
	return false
}
