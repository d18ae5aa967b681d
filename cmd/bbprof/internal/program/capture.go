package program

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/capture"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
)

func captureCommand() *cli.Command {
	return &cli.Command{
		Name:    "capture",
		Summary: "take the states in which a program reaches its blocks, registers and memory",
		Synopsis: []string{"capture -o FILE [flags] -- PROGRAM [ARG...]",
			"capture -index FILE  (what a file holds)", "capture -verify FILE  (whether its visits run to the same end again)"},
		About: `It runs a program under control and takes, for random visits of its blocks, what the block starts
from: general, vector and x87 registers, flags, MXCSR, segment bases, and every page that the visit
touches; and what the block left of them. It watches the hottest blocks by bbprof extract -run,
which runs the program once more under valgrind, or those that -func, -address or -blocks name.
bbprof measures a block from such a state with -state FILE#NUMBER. -verify runs each visit once more
from what was captured and compares what follows with what the program had, to the bit.

FILE HOLDS MEMORY OF THE PROGRAM: keys, passwords and texts, if it has any. It has mode 0600. The
program runs with your rights and unconfined. Address randomisation is off, and the kernel's random
bytes are the same in every run, so keys that the program makes are no secret.
`,
		Notes: "docs/capture.md says what is left out, what a program can notice, and how to measure from a state.\n",
		Examples: `bbprof capture -o gzip.states -- gzip -c FILE >/dev/null   the 100 hottest blocks
bbprof capture -o s.states -func '^inflate' -- ./prog        blocks of some functions
bbprof capture -index gzip.states                            which block, which visit
bbprof capture -verify gzip.states                           is it what the program ran?
`,
		Exits: cli.Exits("captured; or verified", "-verify: at least one visit ends otherwise than in the program", map[int]string{
			cli.ExitUsage:       "bad usage, or a program that cannot be captured; the message says why",
			cli.ExitHost:        "this host cannot run programs under control, or lacks valgrind",
			cli.ExitInterrupted: "interrupted; what was captured until then is written"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			c := captureCmd{first: 20_000, top: 100}
			c.declare(f)
			return c.run
		},
	}
}

type captureCmd struct {
	words     []string
	out       string
	index     string
	verify    string
	quiet     bool
	function  *regexp.Regexp
	addresses []uint64
	file      string
	blocks    string
	loops     bool
	top       int
	samples   int
	first     int
	options   capture.Options
	image     string // the program that contains the blocks, if not the one started
}

func (c *captureCmd) declare(f *cli.Flags) {
	f.Program = &c.words
	f.Stray = "write the program and its arguments after --"
	cli.OutputFile(f, &c.out, "o", "FILE", "where the states go")
	f.Toggle(&c.quiet, "q", "quiet: no progress and no notes on standard error, only errors")
	f.Text(&c.index, "index", "FILE", "write what FILE holds as CSV: a row a state")
	f.Text(&c.verify, "verify", "PATH", "execute the visits of the file PATH and compare with what the program made of them")
	f.Section("Which blocks")
	f.Number(&c.top, 1, "top", "the N that execute most instructions")
	cli.Parsed(f, &c.function, regexp.Compile, "func", "NAME",
		"those of functions whose demangled name matches NAME, a regular expression, whether or not they are hot")
	cli.Parsed(f, &c.addresses, func(s string) ([]uint64, error) {
		at, err := cli.ParseAddress(s)
		return append(c.addresses, at), err
	}, "address", "ADDR", "the one at this address, as bbprof extract has it; may be repeated")
	f.Text(&c.file, "file", "FILE", "the library in which -func and -address look (default: the program)")
	f.Text(&c.blocks, "blocks", "FILE", "those in FILE, as bbprof extract writes them: columns hex, file, address, with -loops entry and, for -top, count")
	f.Toggle(&c.loops, "loops", "loops instead of blocks, all their blocks, as bbprof extract -loops finds them: a visit is from one arrival at "+
		"the loop's header until control leaves it")
	f.Section("Which visits")
	f.Number(&c.samples, 0, "samples", "how many of each block or loop, drawn at random").Fallback = "0, which is 20 of a block and 5 of a loop"
	f.Number(&c.first, 0, "first", "draw from the first N visits of each block; 0: from all")
	f.Seed(&c.options.Seed, "draws other visits")
	f.Section("How the program runs")
	blockflags.CPUFlag(f, &c.options.CPUs, "the CPU to run on")
	f.Toggle(&c.options.Random, "random", "let the program have random bytes of its own: what it makes of them is "+
		"then secret, and differs from capture to capture")
	programflags.RunFlags(f, &c.options.Timeout, &c.options.Stdin, "10m")
	programflags.ProgramFlag(f, &c.image, "capture in NAME, which PROGRAM becomes by exec, as env and sh -c 'exec ./prog' do (default: PROGRAM itself)")
}

func (c *captureCmd) check() error {
	var r cli.Rules
	named := c.function != nil || len(c.addresses) > 0
	if r.Not(c.index != "" && c.verify != "", "choose -index or -verify"); c.index != "" || c.verify != "" {
		r.Not(c.out != "" || len(c.words) > 0, "-index and -verify only read: leave out -o and the program")
		return r.Err
	}
	r.Not(len(c.words) == 0, "no program: write it and its arguments after --")
	r.Not(c.out == "" || c.out == "-", "no file for the states: name one with -o")
	r.Not(c.blocks != "" && named, "-blocks lists the blocks: leave out either it or -func and -address")
	r.Not(c.file != "" && !named, "-file names the library for -func and -address: add one of them")
	info, err := os.Stat(c.out) // renaming the states into place would remove a device or a pipe
	r.Not(err == nil && !info.Mode().IsRegular(), "-o %s is not a regular file, which states need; name another file", c.out)
	return r.Err
}

func (c *captureCmd) run(std cli.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.index != "" {
		return listStates(c.index, std.Out)
	}
	if c.verify != "" {
		return c.verifyFile(std)
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	notes := std.Err
	if c.quiet {
		notes = io.Discard
	}
	c.options.Timeout = cmp.Or(c.options.Timeout, 10*time.Minute)
	if c.samples == 0 {
		c.samples = 20
		if c.loops { // each may take half a second
			c.samples = 5
		}
	}
	command, err := programflags.Behind(ctx, c.words, c.image, c.options.Control, notes)
	if err != nil {
		return err
	}
	var found extract.Stats
	blocks, err := c.choose(ctx, command, &found, std, notes)
	if err != nil {
		return programflags.BadInput(err)
	}
	for _, why := range words.ByCount(found.LeftOut) {
		fmt.Fprintf(notes, "bbprof: %s left out: %s\n", words.Plural(found.LeftOut[why], "loop"), why)
	}
	if len(blocks) == 0 {
		return cli.BadUsage("no %s is chosen: nothing of the program that can be measured matches", c.what())
	}
	name, err := atomicfile.ResolveLink(c.out)
	if err != nil {
		return cli.BadUsage("-o: %w", err)
	}
	file, err := states.Create(name, states.About{Program: c.words, CPU: host.Detect().Brand, Seed: c.options.Seed, Samples: c.samples})
	if err != nil {
		return cli.BadUsage("-o: %w", err)
	}
	c.options.Samples, c.options.First, c.options.Stderr = c.samples, uint64(c.first), std.Err
	if out, ok := std.Out.(*cli.Lossless); ok {
		c.options.Stdout, _ = out.Writer.(*os.File)
	}
	kept := 0
	report, err := capture.Run(ctx, command, blocks, c.options, func(v capture.Visit) error {
		b := blocks[v.Block]
		kept++
		return file.Add(&states.Visit{
			Entry: states.Entry{Hex: hex.EncodeToString(b.Code), File: b.File, Function: b.Function, Offset: b.Offset,
				Address: v.Before.Address, Visit: v.Number, Visits: v.Of, Entry: b.Entry, Skipped: v.Skipped},
			Before: v.Before, After: v.After,
		})
	})
	if kept == 0 && err != nil {
		file.Abort()
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing the states: %w", err)
	}
	c.note(notes, report, kept)
	if ctx.Err() != nil {
		fmt.Fprintln(notes, "bbprof: interrupted: what was captured until then is written")
	}
	return err
}

func listStates(name string, w io.Writer) error {
	r, err := states.Open(name)
	if err != nil {
		return cli.Usage(err)
	}
	defer r.Close()
	return r.WriteIndex(w)
}

func (c *captureCmd) what() string {
	if c.loops {
		return "loop"
	}
	return "block"
}

func (c *captureCmd) choose(ctx context.Context, command launch.Command, found *extract.Stats, std cli.Streams, notes io.Writer) ([]capture.Block, error) {
	var all []*extract.Block
	var err error
	add := func(b *extract.Block) error {
		if len(c.addresses) == 0 || slices.Contains(c.addresses, b.Addr) {
			all = append(all, b)
		}
		return nil
	}
	switch {
	case c.blocks != "":
		all, err = c.listed(std)
	case c.function != nil || len(c.addresses) > 0:
		err = extract.File(ctx, cmp.Or(c.file, command.Exe.Path), extract.Options{Cut: extract.CutLeader, Func: c.function, Branches: true, Loops: c.loops},
			found, add)
		return hottest(all, len(all)), err
	default:
		err = c.ran(ctx, add, found, std, notes)
	}
	return hottest(all, c.top), err
}

func (c *captureCmd) ran(ctx context.Context, add func(*extract.Block) error, found *extract.Stats, std cli.Streams, notes io.Writer) error {
	fmt.Fprintln(notes, "bbprof: running the program under valgrind, to find its hottest blocks")
	const others = "choose blocks with -func, -address or -blocks: then nothing runs under valgrind"
	r := extract.Run{Program: c.words, Err: cli.Direct(std.Err), AnyStatus: true, Timeout: c.options.Timeout}
	profile, err := programflags.Run(ctx, r, c.options.Stdin, notes, (*extract.Run).Profile)
	bad := (*extract.InputError)(nil)
	switch {
	case errors.As(err, &bad): // for example a crash
		return cli.BadUsage("%w; %s", err, others)
	case err != nil:
		return err
	}
	o := extract.Options{Cut: extract.CutLeader, Profile: profile, Lenient: true, Branches: true, Loops: c.loops}
	for _, name := range profile.Files() {
		if err := extract.File(ctx, name, o, found, add); err != nil {
			return err
		}
	}
	return nil
}

func (c *captureCmd) listed(std cli.Streams) (all []*extract.Block, err error) {
	in, err := input.Open([]string{c.blocks}, std.In, input.NoFlag, nil)
	if err != nil {
		return nil, cli.BadUsage("-blocks: %w", err)
	}
	defer in.Close()
	column := func(name string) int { return slices.Index(in.Carried(), name) }
	file, address, function, count, entry := column("file"), column(input.AddressColumn), column("function"), column("count"), column("entry")
	if file < 0 || address < 0 {
		return nil, cli.BadUsage("-blocks: %s has no columns file and address: bbprof extract writes such a table", c.blocks)
	}
	if (entry >= 0) != c.loops { // a loop's bytes may run as a block, to another end
		return nil, cli.BadUsage("-blocks: %s has column entry if bbprof extract -loops wrote it: give -loops for such a table and for no other", c.blocks)
	}
	for row, err := range resultfile.Each(in.Next) {
		if err != nil {
			return nil, cli.BadUsage("-blocks: %w", err)
		}
		if row.Rejection != nil {
			return nil, cli.BadUsage("-blocks: %s:%d: %v", c.blocks, row.Line, row.Rejection)
		}
		if row.At == nil {
			return nil, cli.BadUsage("-blocks: %s:%d: address %q: write an address such as 0x401136", c.blocks, row.Line, row.Carried[address])
		}
		b := extract.Block{Code: row.Code, File: row.Carried[file], Addr: *row.At}
		if c.loops {
			if b.Entry, err = strconv.Atoi(row.Carried[entry]); err != nil || b.Entry < 0 || b.Entry >= len(row.Code) {
				return nil, cli.BadUsage("-blocks: %s:%d: entry %q: write the offset of the loop's header in its code", c.blocks, row.Line, row.Carried[entry])
			}
			region, _ := asm.RegionOf(row.Code, b.Entry) // capture reports what does not decode
			b.Instructions, b.Blocks = len(region.Insts), max(region.Blocks, 1)
		} else {
			insts, _ := asm.Decode(row.Code)
			b.Instructions = len(insts)
		}
		if function >= 0 {
			b.Function = row.Carried[function]
		}
		if count >= 0 {
			if b.Count, err = strconv.ParseUint(row.Carried[count], 10, 64); err != nil {
				return nil, cli.BadUsage("-blocks: %s:%d: count %q: write a whole number from 0 on", c.blocks, row.Line, row.Carried[count])
			}
		}
		all = append(all, &b)
	}
	return all, nil
}

// hottest returns the n blocks that execute most instructions.
func hottest(all []*extract.Block, n int) (list []capture.Block) {
	executed := func(b *extract.Block) uint64 { return b.Count * uint64(max(b.Instructions, 1)) }
	slices.SortStableFunc(all, func(a, b *extract.Block) int { return cmp.Compare(executed(b), executed(a)) })
	for _, b := range all[:min(n, len(all))] {
		one := capture.Block{Code: b.Code, File: b.File, Function: b.Function, Offset: b.Addr}
		if b.Blocks > 0 {
			one.Entry = &b.Entry
		}
		list = append(list, one)
	}
	return list
}

func (c *captureCmd) note(w io.Writer, r capture.Report, kept int) {
	with, out, lost := 0, map[string]int{}, map[string]int{}
	never := 0
	for _, b := range r.Blocks {
		switch {
		case b.Kept > 0:
			with++
		case b.Out != "":
			out[b.Out]++
		case b.Visits == 0:
			never++
		}
		for why, n := range b.Lost {
			lost[why] += n
		}
	}
	size := "nothing"
	if info, err := os.Stat(c.out); err == nil {
		size = fmt.Sprintf("%.1f MB", float64(info.Size())/1e6)
	}
	line := func(format string, args ...any) { fmt.Fprintf(w, "bbprof: "+format+"\n", args...) }
	line("%s of %d of %s in %.1f s: %s, %s", words.Plural(kept, "visit"), with, words.Plural(len(r.Blocks), c.what()), r.Time.Seconds(), c.out, size)
	for _, why := range words.ByCount(out) {
		line("%s left out: %s", words.Plural(out[why], c.what()), why)
	}
	if never > 0 {
		line("%s never reached after the program's own code begins", words.Plural(never, c.what()))
	}
	for _, why := range words.ByCount(lost) {
		line("%s drawn and not taken: %s", words.Plural(lost[why], "visit"), why)
	}
	if r.Threads > 0 {
		line("the program started %s: each visit was taken while all other threads stood still", words.Plural(r.Threads, "thread"))
	}
	if r.Children > 0 {
		line("the program started %s: nothing is taken of them", words.Plural(r.Children, "process"))
	}
	if r.End != "" && !r.Stopped {
		line("the program did not end with status 0: %s", r.End)
	}
	line("%s holds memory of the program", c.out)
}
