package blockflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type BlockFlags struct {
	hex   string
	asm   string
	At    *uint64
	Flags *cli.Flags
	// Memory takes the words that annotations of -asm set; nil if the command cannot set words.
	Memory *initial.Memory
}

func (b *BlockFlags) Add(f *cli.Flags) {
	b.Flags = f
	f.Text(&b.hex, "hex", "HEX", "the block's machine code: digits of either case; spaces between bytes and 0x are "+
		"welcome; - reads it from standard input")
	f.Text(&b.asm, "asm", "TEXT", "the block in assembly, Intel or AT&T, on lines or with semicolons, or as compilers, objdump and gdb print it; "+
		"GNU as or llvm-mc assembles it; - reads it from standard input. Annotations of llvm-exegesis' snippets apply")
	cli.Parsed(f, &b.At, func(s string) (*uint64, error) {
		at, err := cli.ParseAddress(s)
		return &at, err
	}, "address", "ADDR", "where the block stands in its program, such as 0x401136: rip-relative operands keep their place "+
		"within a page (default: each is aligned as its width wants)")
	f.Stray = "quote a block that has spaces in it"
}

func (b *BlockFlags) Given() bool { return b.Flags.Has("hex") || b.Flags.Has("asm") }

// maxText limits what is read from standard input: the longest form of the longest block, "0x48 0x01 …".
const maxText = 5 * profiler.MaxBlock

// Read returns the block; - means standard input.
func (b *BlockFlags) Read(std cli.Streams) (profiler.Block, error) {
	switch {
	case !b.Given():
		return profiler.Block{}, cli.BadUsage("no block: give one with -hex, such as %s -hex 4801c0, or with -asm", b.Flags.Command)
	case b.Flags.Has("hex") && b.Flags.Has("asm"):
		return profiler.Block{}, cli.BadUsage("-hex and -asm are two ways to give one block; choose one")
	case b.Flags.Has("asm"):
		return b.assemble(std)
	}
	text, where, err := textOf(b.hex, "-hex", std.In)
	if err != nil {
		return profiler.Block{}, err
	}
	code, err := asm.ParseHex(text, profiler.MaxBlock)
	switch {
	case err != nil:
		return profiler.Block{}, cli.BadUsage("%s: %w%s", where, err, AssemblyHint(text))
	case len(text) > maxText:
		return profiler.Block{}, cli.BadUsage("%s: more than %d characters; give one block of at most %d bytes", where, maxText, profiler.MaxBlock)
	}
	return profiler.Block{Code: code, Setup: profiler.Setup{Address: b.At}}, nil
}

// textOf returns a flag's value, or standard input if the value is -; where names the source.
func textOf(value, flag string, in io.Reader) (text, where string, err error) {
	if value != "-" {
		return value, flag, nil
	}
	all, err := io.ReadAll(io.LimitReader(in, maxText+1))
	if err != nil {
		return "", "", cli.BadUsage("reading standard input: %w", err)
	}
	return string(all), "standard input", nil
}

func (b *BlockFlags) assemble(std cli.Streams) (profiler.Block, error) {
	text, where, err := textOf(b.asm, "-asm", std.In)
	if err != nil {
		return profiler.Block{}, err
	}
	code, start, err := Assemble(text)
	bad := (*assemble.Error)(nil)
	switch {
	case errors.As(err, &bad):
		return profiler.Block{}, cli.BadUsage("%s: %w%s", where, bad, fileHint(b.asm))
	case err != nil:
		return profiler.Block{}, err
	case len(code) > profiler.MaxBlock:
		return profiler.Block{}, cli.BadUsage("%s: %d bytes of code; give one block of at most %d", where, len(code), profiler.MaxBlock)
	case len(start.Memory) > 0 && b.Memory == nil:
		return profiler.Block{}, cli.BadUsage("%s: %s", where, OnlyFill)
	case len(start.Memory) > 0:
		if *b.Memory, err = b.Memory.And(start.Memory); err != nil {
			return profiler.Block{}, cli.BadUsage("%s: %w", where, err)
		}
	}
	return profiler.Block{Code: code, Setup: profiler.Setup{Address: cmp.Or(b.At, start.At), Set: start.Set}}, nil
}

// OnlyFill is the error for annotations that set words of memory, in a command that cannot set words.
const OnlyFill = assemble.AnnotationMark + "MEM-DEF: memory holds several values; only bbprof -asm, without a command, " +
	"sets words of it; define one value that fills all"

// Assemble assembles a text, and reads its annotations. An error in the text is an *assemble.Error.
func Assemble(text string) ([]byte, assemble.Start, error) {
	start, err := assemble.StartOf(text)
	if err != nil {
		return nil, start, err
	}
	tool, err := assemble.New()
	if err != nil {
		return nil, start, &verdict.HostError{Missing: err.Error(), Remedy: assemble.Remedy}
	}
	code, err := tool.Block(context.Background(), text)
	return code, start, err
}

// fileHint advises about a text that is a file's name; "" for any other.
func fileHint(text string) string {
	if info, err := os.Stat(text); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return fmt.Sprintf("; %s is a file: -asm - < %[1]s reads a block from it, and bbprof extract takes the blocks of assembly with labels and jumps", text)
}

// registerName matches assembly in either syntax, and never hex digits.
var registerName = regexp.MustCompile(`(?i)\b([re]?(ax|bx|cx|dx|si|di|sp|bp)|[abcd][hl]|[sd]il|[sb]pl|r(8|9|1[0-5])[dwb]?|[xyz]?mm[0-9]+|nop)\b`)

// AssemblyHint advises about a text that is assembly; "" for any other.
func AssemblyHint(text string) string {
	if !registerName.MatchString(text) {
		return ""
	}
	return "; this is assembly: give it with -asm"
}
