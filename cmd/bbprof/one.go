package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
)

// one measures one block: bbprof -hex.
func one(args []string, std streams) int {
	var (
		opts   profiler.Options
		f      = newFlags("bbprof")
		text   = f.String("hex", "", "")
		asJSON = f.Bool("json", false, "")
	)
	f.BoolVar(&opts.Detail, "v", false, "")
	measuring(f, &opts)
	operands, code, done := parse(f, args, usageOne, std)
	if done {
		return code
	}
	if len(operands) > 0 {
		return usageError(std, "unexpected argument %q: quote a block that has spaces in it, and name a subcommand before its flags", operands[0])
	}
	if err := opts.Check(); err != nil {
		return usageError(std, "%v", err)
	}
	given := false
	f.Visit(func(g *flag.Flag) { given = given || g.Name == "hex" })
	if !given {
		return usageError(std, "no block: give one with -hex, such as bbprof -hex 4801c0")
	}
	block, err := readBlock(*text, std.in)
	if err != nil {
		return usageError(std, "%v", err)
	}
	if u := opts.Unroll; u != nil && (u.Short+u.Long)*len(block.Code) > layout.CodeSize {
		return usageError(std, "-unroll %v: so many copies of %d bytes do not fit the %d bytes that there are for code", u, len(block.Code), layout.CodeSize)
	}
	p, err := profiler.New(opts)
	if err != nil {
		return failure(std, err)
	}
	defer p.Close()
	result, err := p.Profile(context.Background(), block)
	if err != nil {
		return failure(std, err)
	}
	if *asJSON {
		err = json.NewEncoder(std.out).Encode(result)
	} else {
		_, err = io.WriteString(std.out, report(result))
	}
	if err != nil {
		return failure(std, fmt.Errorf("writing the result: %w", err))
	}
	return verdictCode(result, std)
}

// verdictCode is the exit code of one block's result.
func verdictCode(r profiler.Result, std streams) int {
	switch r.Status {
	case profiler.OK:
		return exitOK
	case profiler.Rejected:
		return exitRejected
	}
	return failure(std, fmt.Errorf("internal failure: %s", r.Failure))
}

// maxText is how much of standard input can be a block: the longest, as "0x48 0x01 …".
const maxText = 5 * profiler.MaxBlock

// readBlock is the block that -hex names; "-" is standard input.
func readBlock(text string, stdin io.Reader) (profiler.Block, error) {
	where := "-hex"
	if text == "-" {
		where = "standard input"
		b, err := io.ReadAll(io.LimitReader(stdin, maxText+1))
		if err != nil {
			return profiler.Block{}, fmt.Errorf("reading standard input: %w", err)
		}
		text = string(b)
	}
	code, err := asm.ParseHex(text, profiler.MaxBlock)
	if err != nil {
		return profiler.Block{}, fmt.Errorf("%s: %w", where, err)
	}
	if len(text) > maxText {
		return profiler.Block{}, fmt.Errorf("%s: more than %d characters; give one block of at most %d bytes", where, maxText, profiler.MaxBlock)
	}
	return profiler.Block{Code: code}, nil
}
