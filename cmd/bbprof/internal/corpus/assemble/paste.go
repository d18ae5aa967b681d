package assemble

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// What compilers, Compiler Explorer, objdump and gdb print is not what an assembler reads. Each function here keeps the
// number of lines, which messages name.

var (
	// objdumpLine matches "  401136:	48 01 f0             	add    %rsi,%rax", of which the bytes are the code.
	objdumpLine = regexp.MustCompile(`^\s*[0-9a-f]+:\s+((?:[0-9a-f]{2} )+)(?:\s|$)`)
	// gdbLine matches "=> 0x0000000000401136 <+4>:	add    %rsi,%rax", with "/r" or without.
	gdbLine   = regexp.MustCompile(`^(?:=>)?\s*(0x[0-9a-f]+)(?: <[^>]*>)?:\s+((?:[0-9a-f]{2}(?: |\t))*)(.*)\s*$`)
	gdbTarget = regexp.MustCompile(`\b(0x[0-9a-f]+) <[^>]*>`)

	labelAlone = regexp.MustCompile(`^\s*([.\w$@]+):\s*(?:#.*)?\s*$`)
	anyLabel   = regexp.MustCompile(`(?m)(?:^|[;\s])([.\w$@]+)\s*:`)
	dataLine   = regexp.MustCompile(`^\s*\.(?:byte|word|value|short|long|int|quad|octa|zero|skip|space|float|single|double|ascii|asciz|string)\b`)
	// relative and absolute match the symbols of operands that cannot be mistyped registers.
	relative = regexp.MustCompile(`(?im)\brip\s*\+\s*` + symbol + `|(?:^|[^\w.$])` + symbol + `(?:[+-]\d+)?(?:\(%rip\)|\[rip\b)`)
	absolute = regexp.MustCompile(`(?im)\boffset\s+(?:flat:)?` + symbol + `|\$` + symbol + `|(?:^|[^\w.$])` + symbol + `(?:[+-]\d+)?(?:\[|\(,?%)`)
	assigned = regexp.MustCompile(`(?:\.(?:set|equ|equiv)\s+)([.\w$]+)`)
	machO    = regexp.MustCompile(`^(\s*)\.section\s+__(TEXT|DATA)[A-Z_]*,(\w+).*$`)
)

const symbol = `([a-z_.][\w.$]*)`

// aboutFiles are directives that say nothing of a block's code.
var aboutFiles = []string{"globl", "global", "type", "size", "file", "loc", "ident", "text", "section", "weak", "hidden", "local", "p2align",
	"build_version", "subsections_via_symbols", "addrsig", "addrsig_sym", "cv_file", "cv_loc"}

// listed returns the code of objdump's lines; ok is false if the text has none.
func listed(text string) (code []byte, ok bool) {
	for line := range strings.Lines(text) {
		if m := objdumpLine.FindStringSubmatch(line); m != nil {
			bytes, err := hex.DecodeString(strings.ReplaceAll(m[1], " ", ""))
			if code = append(code, bytes...); err != nil {
				return nil, false
			}
		}
	}
	return code, len(code) > 0
}

// ungdb rewrites gdb's lines: labels in place of addresses that branches of the text lead to.
func ungdb(text string) string {
	lines := strings.SplitAfter(text, "\n")
	known := map[string]bool{}
	short := func(addr string) string { return "0x" + strings.TrimLeft(strings.TrimPrefix(addr, "0x"), "0") }
	for _, line := range lines {
		if m := gdbLine.FindStringSubmatch(line); m != nil {
			known[short(m[1])] = true
		}
	}
	if len(known) == 0 {
		return text
	}
	var out strings.Builder
	for _, line := range lines {
		m := gdbLine.FindStringSubmatch(line)
		if m != nil {
			instruction, _, _ := strings.Cut(m[3], "#")
			instruction = gdbTarget.ReplaceAllStringFunc(instruction, func(target string) string {
				addr := short(gdbTarget.FindStringSubmatch(target)[1])
				if known[addr] {
					return ".Lat" + addr
				}
				return addr
			})
			fmt.Fprintf(&out, ".Lat%s: %s", short(m[1]), instruction)
		}
		if strings.HasSuffix(line, "\n") {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// blockOnly takes out of a compiler's output what is not the block's code: directives about files and symbols, and constants. Each
// symbol of an operand gets a line of its own, behind the block if it is relative to rip, where memory is as the initial state has it.
func blockOnly(text string) string {
	lines := strings.SplitAfter(ungdb(text), "\n")
	var constants []string
	for i := 0; i < len(lines); i++ {
		words := strings.Fields(lines[i])
		if len(words) == 0 {
			continue
		}
		name, isDirective := strings.CutPrefix(words[0], ".")
		label := labelAlone.FindStringSubmatch(lines[i])
		switch {
		case label != nil && i+1 < len(lines) && dataLine.MatchString(lines[i+1]):
			constants = append(constants, label[1])
			lines[i] = "\n"
			for ; i+1 < len(lines) && dataLine.MatchString(lines[i+1]); i++ {
				lines[i+1] = "\n"
			}
		case isDirective && label == nil && (slices.Contains(aboutFiles, name) && !(name == "p2align" && i > 0 && hasCode(lines[:i])) || strings.HasPrefix(name, "cfi_")):
			lines[i] = "\n"
		}
	}
	text = strings.Join(lines, "")
	for _, m := range relative.FindAllStringSubmatch(text, -1) {
		constants = append(constants, m[1]+m[2])
	}
	defined := map[string]bool{"ptr": true} // as code of the block; and a keyword
	for _, m := range append(anyLabel.FindAllStringSubmatch(text, -1), assigned.FindAllStringSubmatch(text, -1)...) {
		defined[m[1]] = true
	}
	slices.Sort(constants)
	var set strings.Builder
	for k, name := range slices.Compact(constants) {
		if !defined[name] {
			fmt.Fprintf(&set, "; .set %s, .Lbbprof + %#x", name, 0x1000+64*k)
			defined[name] = true
		}
	}
	for k, m := range absolute.FindAllStringSubmatch(text, -1) {
		if name := m[1] + m[2] + m[3]; !defined[name] && !defined[strings.ToLower(name)] {
			fmt.Fprintf(&set, "; .set %s, %#x", name, 0x2000_0200+0x10c0*k) // a page and a line of its own, below 2 GiB
			defined[name] = true
		}
	}
	if set.Len() == 0 {
		return text
	}
	return ".Lbbprof: " + strings.TrimRight(text, "\n") + set.String() + "\n"
}

// withoutReturn leaves out the return that ends a function: it is no part of its last block.
func withoutReturn(code []byte) []byte {
	insts, err := asm.Decode(code)
	if n := len(insts) - 1; err == nil && n > 0 && insts[n].Mnemonic == "ret" {
		return code[:insts[n].Offset]
	}
	return code
}

// hasCode reports whether any line has an instruction.
func hasCode(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		line = strings.TrimSpace(line)
		return line != "" && line[0] != '.' && line[0] != '#' && !strings.HasSuffix(line, ":")
	})
}

// Source makes a file that a compiler wrote for another assembler's defaults what this one takes: Intel syntax without the directive, and
// Mach-O's sections.
func Source(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if m := machO.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			lines[i] = m[1] + map[bool]string{true: ".text", false: `.section .rodata,"a"`}[m[3] == "__text" || m[3] == "text"] + "\n"
		}
		if word := strings.TrimSpace(line); strings.HasPrefix(word, ".subsections_via_symbols") || strings.HasPrefix(word, ".build_version") {
			lines[i] = "\n"
		}
	}
	text = strings.Join(lines, "")
	if !strings.Contains(text, "_syntax") && !attOperand.MatchString(text) {
		return ".intel_syntax noprefix; " + text
	}
	return text
}
