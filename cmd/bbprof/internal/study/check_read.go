package study

import (
	"context"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
)

// readBuild returns the pieces of a build, in order. With a profile they have counts.
func (c *checkCmd) readBuild(ctx context.Context, name, profile string, std cli.Streams) (pieces []check.Piece, err error) {
	switch {
	case name != "-" && extract.IsCode(name):
		pieces, err = c.extract(ctx, name, profile)
	case profile != "":
		return nil, cli.BadUsage("-profile is of a program or library, and %s is a file of blocks", name)
	default:
		pieces, err = c.readRows(name, std)
	}
	if err == nil && len(pieces) == 0 {
		matching := ""
		if c.functions != nil {
			matching = fmt.Sprintf(" in a function that matches %v", c.functions)
		}
		err = cli.BadUsage("%s holds no block%s", name, matching)
	}
	return pieces, err
}

func (c *checkCmd) extract(ctx context.Context, name, profile string) (pieces []check.Piece, err error) {
	options := extract.Options{Cut: extract.CutLeader, Min: 1, Branches: true, Lines: true, Depths: true, Func: c.functions}
	var stats extract.Stats
	codeOf := check.Codes()
	err = extract.File(ctx, name, options, &stats, func(b *extract.Block) error {
		p := check.Piece{Function: b.Function, Nameless: extract.IsAddress(b.Function), Address: b.Addr, Placed: true, Source: b.Source, Depth: int32(b.Depth)}
		var ok bool
		if p.Code, ok = codeOf(b.Code); ok && c.selects(p) {
			pieces = append(pieces, p)
		}
		return nil
	})
	if err != nil || profile == "" {
		return pieces, programflags.BadInput(err)
	}
	if options.Profile, err = extract.ReadProfile(profile); err != nil {
		return nil, programflags.BadInput(err)
	}
	counts := map[uint64]float64{}
	err = extract.File(ctx, name, options, &stats, func(b *extract.Block) error {
		counts[b.Addr] = float64(b.Count)
		return nil
	})
	for i := range pieces {
		pieces[i].Count = counts[pieces[i].Address]
	}
	if err == nil && len(counts) == 0 {
		err = cli.BadUsage("%s has no count for %s: it must be of a run of that very file", profile, name)
	}
	return pieces, programflags.BadInput(err)
}

// selects reports whether -func names a piece's function. An address is no name: it is another function's in another build.
func (c *checkCmd) selects(p check.Piece) bool {
	return c.functions == nil || !p.Nameless && c.functions.MatchString(p.Function)
}

// readRows reads a file of blocks. Columns function and source_line are as extract writes them.
func (c *checkCmd) readRows(name string, std cli.Streams) (pieces []check.Piece, err error) {
	in, err := rowflags.OpenBlocks([]string{name}, std.In)
	if err != nil {
		return nil, cli.Usage(err)
	}
	defer in.Close()
	cell := func(row input.Row, column string) string {
		if i := slices.Index(in.Carried(), column); i >= 0 && i < len(row.Carried) {
			return row.Carried[i]
		}
		return ""
	}
	codeOf := check.Codes()
	for row, err := range resultfile.Each(in.Next) {
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("reading %s: %w", name, err))
		}
		if row.Rejection != nil {
			continue
		}
		code, ok := codeOf(row.Code)
		if !ok {
			continue
		}
		p := check.Piece{Code: code, Function: cell(row, "function"), Source: cell(row, "source_line")}
		if p.Nameless = extract.IsAddress(p.Function); !c.selects(p) {
			continue
		}
		if row.At != nil {
			p.Address, p.Placed = *row.At, true
		}
		pieces = append(pieces, p)
	}
	in.Ignored().Warn(std.Err)
	return pieces, nil
}
