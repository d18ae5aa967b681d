package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func blockCommand() *command {
	return &command{
		summary:  "measure one block",
		synopsis: []string{"[flags] -hex HEX", "[flags] -asm TEXT", "COMMAND [flags] ...  (bbprof COMMAND -h)"},
		about: `bbprof measures how many core cycles a basic block of x86-64 code takes per iteration at
steady state, with all its data and code in the first-level caches, or says why it cannot.
Where other work on the machine is in the way, it tries up to three times.
`,
		examples: `bbprof -hex 4801c0                         add rax, rax
bbprof -asm 'add rax, rbx; imul rcx, rax'  the same from assembly
bbprof -v -hex '48 8b 03 48 01 d8'         with spaces, and the listing
bbprof -state gzip.states#17               a block in the state in which gzip reached it
echo 4801c0 | bbprof -json -hex - | jq .cycles
`,
		exits: map[int]string{exitOK: "measured", exitRejected: "the block is rejected; the report says why",
			exitUsage: "", exitHost: "", exitInternal: "", exitInterrupted: "interrupted"},
		setup: func(f *flags) func(streams) error {
			m := measureBlock{out: output{}}
			m.block.add(f)
			f.text(&m.state, "state", "FILE", "FILE#N: start from the state in which a program reached the block, the Nth of those that bbprof capture "+
				"wrote to FILE. Without -hex, the block of that visit")
			m.out.add(f, "the report")
			f.toggle(&m.opts.Detail, "v", "add the disassembly, which instruction asked for which page, and the host")
			syntaxFlag(f, &m.syntax, "the disassembly")
			layouts(f, &m.opts)
			measuring(f, &m.opts)
			f.topic = -1 // listed in full: this is the first help that is read
			f.stray = "quote a block that has spaces in it, and name a command before its flags"
			return m.run
		},
	}
}

type measureBlock struct {
	opts   profiler.Options
	block  blockFlags
	state  string
	syntax assemble.Syntax
	out    output
}

func (m *measureBlock) run(std streams) error {
	if err := m.opts.Check(); err != nil {
		return &usageError{err}
	}
	block, err := m.read(std)
	if err != nil {
		return err
	}
	if u := m.opts.Unroll; u != nil && (u.Short+u.Long)*len(block.Code) > layout.CodeSize {
		return badUsage("-unroll %d,%d: so many copies of %d bytes do not fit the %d bytes that there are for code", u.Short, u.Long, len(block.Code), layout.CodeSize)
	}
	return m.out.profiling(std, m.opts, func(ctx context.Context, p *profiler.Profiler) error {
		result, err := measure.Undisturbed(ctx, p, block)
		if err != nil {
			return err
		}
		inSyntax(&result, m.syntax)
		return cmp.Or(m.out.write(std, result, report(result)), outcome(result))
	})
}

func (m *measureBlock) read(std streams) (b profiler.Block, err error) {
	if m.state == "" {
		return m.block.read(std)
	}
	if m.opts.Init != "" || len(m.opts.Set) > 0 || m.block.at != nil {
		return b, badUsage("-state is all of the state that the block starts from, and its address; leave -init, -set and -address out")
	}
	if m.block.given() {
		if b, err = m.block.read(std); err != nil {
			return b, err
		}
	}
	return b, startState(&b, m.state)
}

// study is what the commands share that ask about one block.
type study struct {
	opts  profiler.Options
	block blockFlags
	out   output
	plot  plotFile
}

// oneOrFiles refuses a block beside files, and what is for one block alone.
func (s *study) oneOrFiles(files []string) error {
	switch {
	case len(files) == 0:
		return nil
	case s.block.given():
		return badUsage("-hex and %s: give a block or files", files[0])
	case s.block.flags.has("address"):
		return badUsage("-address is for one block: a file has addresses in its column address")
	}
	return nil
}

// show writes what was found out about a block, and draws it unless there was nothing to find.
func (s *study) show(std streams, found any, text string, base profiler.Result, figure func() plot.Figure) error {
	if base.Status != profiler.OK {
		text = report(base)
	}
	if err := s.out.write(std, found, text); err != nil {
		return err
	}
	if base.Status == profiler.OK {
		if err := s.plot.draw(blockSubject(base.Hex), s.opts.CPUs, figure()); err != nil {
			return err
		}
	}
	return outcome(base)
}

func outcome(r profiler.Result) error {
	switch r.Status {
	case profiler.OK:
		return nil
	case profiler.Rejected:
		return errRejected
	}
	return fmt.Errorf("internal failure: %s", r.Failure)
}

type blockFlags struct {
	hex   string
	asm   string
	at    *uint64
	flags *flags
}

func (b *blockFlags) add(f *flags) {
	b.flags = f
	f.text(&b.hex, "hex", "HEX", "the block's machine code: digits of either case; spaces between bytes and 0x are "+
		"welcome; - reads it from standard input")
	f.text(&b.asm, "asm", "TEXT", "the block in assembly, Intel or AT&T syntax, instructions separated by semicolons or lines; "+
		"GNU as or llvm-mc assembles it; - reads it from standard input")
	parsed(f, &b.at, func(s string) (*uint64, error) {
		at, err := parseAddress(s)
		return &at, err
	}, "address", "ADDR", "where the block stands in its program, such as 0x401136: rip-relative operands keep their place "+
		"within a page (default: each is aligned as its width wants)")
	f.stray = "quote a block that has spaces in it"
}

func (b *blockFlags) given() bool { return b.flags.has("hex") || b.flags.has("asm") }

// maxText is how much of standard input can be a block: the longest, as "0x48 0x01 …".
const maxText = 5 * profiler.MaxBlock

// read is the block; - is standard input.
func (b *blockFlags) read(std streams) (profiler.Block, error) {
	switch {
	case !b.given():
		return profiler.Block{}, badUsage("no block: give one with -hex, such as %s -hex 4801c0, or with -asm", b.flags.command)
	case b.flags.has("hex") && b.flags.has("asm"):
		return profiler.Block{}, badUsage("-hex and -asm are two ways to give one block; choose one")
	case b.flags.has("asm"):
		return b.assemble(std)
	}
	text, where, err := textOf(b.hex, "-hex", std.in)
	if err != nil {
		return profiler.Block{}, err
	}
	code, err := asm.ParseHex(text, profiler.MaxBlock)
	switch {
	case err != nil:
		return profiler.Block{}, badUsage("%s: %w%s", where, err, assemblyHint(text))
	case len(text) > maxText:
		return profiler.Block{}, badUsage("%s: more than %d characters; give one block of at most %d bytes", where, maxText, profiler.MaxBlock)
	}
	return profiler.Block{Code: code, Setup: profiler.Setup{At: b.at}}, nil
}

// textOf is a flag's value, or what standard input holds if that is -; where names the one.
func textOf(value, flag string, in io.Reader) (text, where string, err error) {
	if value != "-" {
		return value, flag, nil
	}
	all, err := io.ReadAll(io.LimitReader(in, maxText+1))
	if err != nil {
		return "", "", badUsage("reading standard input: %w", err)
	}
	return string(all), "standard input", nil
}

func (b *blockFlags) assemble(std streams) (profiler.Block, error) {
	text, where, err := textOf(b.asm, "-asm", std.in)
	if err != nil {
		return profiler.Block{}, err
	}
	tool, err := assemble.New()
	if errors.Is(err, assemble.ErrMissing) {
		return profiler.Block{}, &verdict.HostError{Missing: err.Error(), Remedy: assemble.Remedy}
	} else if err != nil {
		return profiler.Block{}, err
	}
	code, err := tool.Block(context.Background(), text)
	bad := (*assemble.Error)(nil)
	switch {
	case errors.As(err, &bad):
		return profiler.Block{}, badUsage("%s: %w%s", where, bad, fileHint(b.asm))
	case err != nil:
		return profiler.Block{}, err
	case len(code) > profiler.MaxBlock:
		return profiler.Block{}, badUsage("%s: %d bytes of code; give one block of at most %d", where, len(code), profiler.MaxBlock)
	}
	return profiler.Block{Code: code, Setup: profiler.Setup{At: b.at}}, nil
}

// fileHint is what to do about a text that is a file's name, "" of any other.
func fileHint(text string) string {
	if info, err := os.Stat(text); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return fmt.Sprintf("; %s is a file: -asm - < %[1]s reads a block from it, and bbprof extract takes the blocks of assembly with labels and jumps", text)
}

// registerName is found in assembly of either syntax, and never in digits.
var registerName = regexp.MustCompile(`(?i)\b([re]?(ax|bx|cx|dx|si|di|sp|bp)|r(8|9|1[0-5])[dwb]?|[xyz]?mm[0-9]+|nop)\b`)

// assemblyHint is what to do about a text that is assembly, "" of any other.
func assemblyHint(text string) string {
	if !registerName.MatchString(text) {
		return ""
	}
	return "; this is assembly: give it with -asm"
}

type setupFlags struct{ at int }

func (s *setupFlags) add(f *flags) {
	parsed(f, &s.at, parseOffset, "at", "N", "where in its page the first copy starts, in bytes, 0 to 4095; it is no number of a layout").fallback = "0"
}

func parseOffset(text string) (int, error) {
	return wholeNumber(text, 0, layout.PageSize-1, "write a number of bytes from 0 to %d", layout.PageSize-1)
}

// setup is what the flags and the options left to the profiler come to: one place for the
// code, one initial state.
func (s *setupFlags) setup(o *profiler.Options) profiler.Setup {
	init := initial.Paper()
	if i := slices.IndexFunc(initial.States(), func(i initial.State) bool { return i.Name == o.Init }); i >= 0 {
		init = initial.States()[i]
	}
	init = o.Set.Over(init)
	o.NoFTZ = o.NoFTZ && !o.Set.SetsMXCSR()
	return profiler.Setup{CodeOffset: &s.at, Init: &init}
}

func parseRegister(name string) (asm.Reg, error) {
	for r := asm.RAX; r <= asm.R15; r++ {
		if r.String() == strings.ToLower(name) {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is not a general register; write its 64-bit name, such as rsp or r8", name)
}

func parseRegisters(text string) ([]asm.Reg, error) { return listOf(text, parseRegister) }

// tolerateAll lets a block be measured in whatever set-up: what that costs is the question.
func tolerateAll() []verdict.Reason {
	return []verdict.Reason{
		verdict.Alias4K, verdict.AliasFrame, verdict.Misaligned, verdict.L1DMiss, verdict.L1IMiss,
		verdict.Nonlinear, verdict.Unstable,
	}
}

// oneMode checks options that must lead to one number a block.
func oneMode(o profiler.Options) error {
	if o.Mode == profiler.Both {
		return badUsage("-mode both gives two numbers; choose unroll or loop")
	}
	if err := o.Check(); err != nil {
		return &usageError{err}
	}
	return nil
}
