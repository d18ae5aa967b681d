// Package assemble turns assembly into machine code, with GNU as or llvm-mc, whichever is installed.
//
// One run of the assembler takes many texts: each on its own line in its own section, so that the line of a
// message identifies its text. A text with an error is tried again alone, since texts may clash, for example in
// labels, and the others without it.
package assemble

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
)

// ErrMissing reports that no assembler is installed.
var ErrMissing = errors.New("neither GNU as nor llvm-mc is installed")

// Remedy is the advice for ErrMissing.
const Remedy = "install one (Debian: apt-get install binutils), or give the machine code with -hex"

// An Error is the assembler's message about a text.
type Error struct {
	Tool    string // as, llvm-mc
	Line    int    // of the text, from 1
	Message string
}

func (e *Error) Error() string {
	if e.Tool == "" { // about the whole text
		return e.Message
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Tool, e.Message)
}

type Assembler struct {
	path string
	name string
	args []string
}

// New returns an installed assembler: GNU as, llvm-mc, or an llvm-mc with a version in its name; else ErrMissing.
func New() (*Assembler, error) {
	if p, err := exec.LookPath("as"); err == nil {
		return &Assembler{p, "as", []string{"--64"}}, nil
	}
	candidates := []string{"llvm-mc"}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		found, _ := filepath.Glob(filepath.Join(dir, "llvm-mc-[0-9]*"))
		slices.Reverse(found)
		candidates = append(candidates, found...)
	}
	for _, name := range candidates {
		if p, err := exec.LookPath(name); err == nil {
			return &Assembler{p, filepath.Base(p), []string{"-triple=x86_64-linux-gnu", "-filetype=obj"}}, nil
		}
	}
	return nil, ErrMissing
}

// attOperand matches only AT&T syntax: % before a register or $ before a number.
var attOperand = regexp.MustCompile(`%[a-z]|\$-?[0-9]`)

func header(text string) string {
	if attOperand.MatchString(text) {
		return ".att_syntax prefix; "
	}
	return ".intel_syntax noprefix; "
}

// directive matches a word with a leading dot that is not a label. Only data and syntax directives are allowed: others
// could affect more than the text.
var directive = regexp.MustCompile(`(?:^|[;\n:])[ \t]*\.([a-z0-9_]+)([ \t]*:)?`)

var dataDirectives = []string{"byte", "word", "value", "short", "long", "int", "quad", "nops", "p2align", "balign"}

// syntaxDirectives are taken too: a header stands before each text.
var syntaxDirectives = []string{"intel_syntax", "att_syntax", "set"}

func checkDirectives(text string) error {
	for _, m := range directive.FindAllStringSubmatch(text, -1) {
		if m[2] == "" && !slices.Contains(dataDirectives, m[1]) && !slices.Contains(syntaxDirectives, m[1]) {
			return &Error{Tool: "bbprof", Line: 1, Message: fmt.Sprintf("directive .%s is not taken in a block", m[1])}
		}
	}
	return nil
}

// A Result is a text's machine code, or an *Error.
type Result struct {
	Code []byte
	Err  error
}

// Block assembles one text, of any number of lines, also as a compiler, objdump or gdb prints it.
func (a *Assembler) Block(ctx context.Context, text string) ([]byte, error) {
	if code, ok := listed(text); ok {
		return withoutReturn(code), nil
	}
	text = blockOnly(text)
	if err := checkDirectives(text); err != nil {
		return nil, err
	}
	object, complaints, err := a.run(ctx, header(text)+text+"\n")
	if err != nil {
		return nil, err
	}
	if len(complaints) > 0 {
		return nil, complaints[0]
	}
	code, err := a.code(object, ".text")
	return withoutReturn(code), err
}

// Blocks assembles many one-line texts. The error is the assembler's own, not a text's.
func (a *Assembler) Blocks(ctx context.Context, texts []string) ([]Result, error) {
	results := make([]Result, len(texts))
	var todo []int // texts of the next run
	for i, text := range texts {
		if err := checkDirectives(text); err != nil || strings.ContainsAny(text, "\n\r") {
			results[i].Err = cmp.Or(err, error(&Error{Tool: "bbprof", Line: 1, Message: "a block of a corpus stands on one line"}))
			continue
		}
		todo = append(todo, i)
	}
	for len(todo) > 0 {
		var source strings.Builder
		for _, i := range todo {
			fmt.Fprintf(&source, ".section .text.%d,\"ax\",@progbits; %s%s\n", i, header(texts[i]), texts[i])
		}
		object, complaints, err := a.run(ctx, source.String())
		if err != nil {
			return nil, err
		}
		blamed := map[int]bool{}
		for _, c := range complaints {
			if c.Line >= 1 && c.Line <= len(todo) {
				blamed[todo[c.Line-1]] = true
			}
		}
		var rest []int
		for _, i := range todo {
			r := &results[i]
			switch {
			case len(complaints) == 0:
				r.Code, r.Err = a.code(object, ".text."+strconv.Itoa(i))
			case !blamed[i] && len(blamed) > 0:
				rest = append(rest, i)
				continue
			}
			if r.Code == nil { // alone
				r.Code, r.Err = a.Block(ctx, texts[i])
				if bad := (*Error)(nil); r.Err != nil && !errors.As(r.Err, &bad) {
					return nil, r.Err
				}
			}
		}
		todo = rest
	}
	return results, nil
}

func (a *Assembler) Object(ctx context.Context, source string) ([]byte, error) {
	object, complaints, err := a.assemble(ctx, source)
	if err == nil && len(complaints) > 0 {
		err = complaints[0]
	}
	return object, err
}

// run assembles a source and opens the object file, if there are no errors.
func (a *Assembler) run(ctx context.Context, source string) (*elf.File, []*Error, error) {
	object, complaints, err := a.assemble(ctx, source)
	if err != nil || len(complaints) > 0 {
		return nil, complaints, err
	}
	f, err := elf.NewFile(bytes.NewReader(object))
	return f, nil, err
}

// assemble assembles a source. The object file is unnamed, so that it disappears even if bbprof is killed; a pipe would not do, since
// assemblers seek in it.
func (a *Assembler) assemble(ctx context.Context, source string) (object []byte, complaints []*Error, err error) {
	file, err := atomicfile.Temporary("machine code")
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, a.path, append(slices.Clone(a.args), "-o", "/dev/fd/3", "-")...)
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = strings.NewReader(source), &out, []*os.File{file}
	cmd.Env = append(os.Environ(), "LC_ALL=C") // for parsable messages
	if err = cmd.Run(); err == nil {
		object, err = io.ReadAll(file)
		return object, nil, err
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		return nil, nil, fmt.Errorf("running %s: %w", a.path, err)
	}
	if complaints = a.complaints(out.String()); len(complaints) == 0 {
		return nil, nil, fmt.Errorf("%s: %w: %.200s", a.path, err, strings.TrimSpace(out.String()))
	}
	return nil, complaints, nil
}

// complaint matches an error line of as ("{standard input}:3: Error: no such instruction: …") or of llvm-mc
// ("<stdin>:3:5: error: …").
var complaint = regexp.MustCompile(`^(?:\{standard input\}|<stdin>|-):(\d+):(?:\d+:)? (?:Error|error|Fatal error): (.*)$`)

func (a *Assembler) complaints(text string) (list []*Error) {
	for line := range strings.Lines(text) {
		if m := complaint.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			n, _ := strconv.Atoi(m[1])
			list = append(list, &Error{Tool: a.name, Line: n, Message: m[2]})
		}
	}
	return list
}

// code returns a section's bytes, if it needs no linker: an unknown register name would otherwise become address
// 0.
func (a *Assembler) code(f *elf.File, name string) ([]byte, error) {
	if what := unlinked(f, name); what != "" {
		return nil, &Error{Tool: "bbprof", Line: 1, Message: what}
	}
	var code []byte
	if s := f.Section(name); s != nil {
		var err error
		if code, err = s.Data(); err != nil {
			return nil, err
		}
	}
	if len(code) == 0 {
		return nil, &Error{Line: 1, Message: "there is no instruction in it; write one such as 'add rax, rbx'"}
	}
	return code, nil
}

// unlinked says what the section's first relocation refers to, "" if there is none.
func unlinked(f *elf.File, section string) string {
	rel := f.Section(".rela" + section)
	if rel == nil {
		return ""
	}
	data, err := rel.Data()
	if err != nil || len(data) < 24 { // struct Elf64_Rela: offset, info, addend
		return ""
	}
	number := int(f.ByteOrder.Uint64(data[8:]) >> 32)
	if symbols, err := f.Symbols(); err == nil && 0 < number && number <= len(symbols) {
		return fmt.Sprintf("%q is neither a register nor a label of the block; write addresses as numbers", symbols[number-1].Name)
	}
	// The distance counts from the end of the field, which has four bytes.
	return fmt.Sprintf("a branch to the number %#x leaves the block; branch to a label of the block, as in 1: dec rcx; jnz 1b", f.ByteOrder.Uint64(data[16:])+4)
}
