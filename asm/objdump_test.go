package asm

import (
	"bufio"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// dumped is one instruction as objdump sees it.
type dumped struct {
	length int
	text   string
}

// objdumpSlots disassembles code sequences, each on its own, and returns what objdump sees by sequence and offset. It
// skips the test where there is no objdump.
func objdumpSlots(t *testing.T, sequences [][]byte) []map[int]dumped {
	t.Helper()
	tool := require.Tool(t, require.Binutils, "objdump")
	var image []byte
	starts := make([]int, len(sequences))
	for i, s := range sequences {
		starts[i] = len(image)
		image = append(image, s...)
		// With more bytes of nops at its end than the longest instruction has, which objdump exceeds by some prefixes, it is
		// back in step at the next one, whatever it made of this one. A nop is one line of its output wherever it enters it.
		image = append(image, "\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90"...)
	}
	file := require.File(t, "code", image)
	cmd := exec.Command(tool, "-D", "-z", "-w", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--insn-width=16", file)
	out := require.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	result := make([]map[int]dumped, len(sequences))
	for i := range result {
		result[i] = make(map[int]dumped)
	}
	current := 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		if len(fields) < 2 {
			continue
		}
		addr, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(fields[0]), ":"), 16, 64)
		if err != nil {
			continue
		}
		for current+1 < len(starts) && int(addr) >= starts[current+1] {
			current++
		}
		if int(addr)-starts[current] >= len(sequences[current]) {
			continue // nops
		}
		d := dumped{length: len(strings.Fields(fields[1]))}
		if len(fields) == 3 {
			d.text = relativeTarget(fields[2], int64(addr)+int64(d.length))
		}
		result[current][int(addr)-starts[current]] = d
	}
	require.NoError(t, lines.Err())
	require.NoError(t, cmd.Wait())
	return result
}

var branch = regexp.MustCompile(`((?:j\w+|call|loop\w*|xbegin)(?:,p[nt])? +)(?:ds:)?(0x[0-9a-f]+)`)

// relativeTarget turns the address that a branch shows into a displacement from next.
func relativeTarget(text string, next int64) string {
	if !strings.Contains(text, "0x") || strings.Contains(text, "[") {
		return text
	}
	m := branch.FindStringSubmatchIndex(text)
	if m == nil {
		return text
	}
	target, err := strconv.ParseUint(text[m[4]:m[5]], 0, 64)
	if err != nil {
		return text
	}
	return text[:m[4]] + fmt.Sprintf(".%+#x", int64(target)-next) + text[m[5]:]
}
