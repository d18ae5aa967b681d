// Package blockflags holds what the commands that measure blocks share: flags, the block, workers, the report of a
// result, and exit codes.
package blockflags

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

func CPUFlag(f *cli.Flags, cpus *[]int, help string) {
	f.CPUs = cpus
	cli.Parsed(f, cpus, cpu.ParseList, "cpus", "LIST", help+" (default: all allowed of the fastest kind of core, the last first)")
}

// CPUHelp is for commands with one worker.
const CPUHelp = "the CPU to measure on, and others to move to when that is busy, such as 3 or 2,3 or 0-3"

// WhereFlags declares the flags that say where and for how long to measure.
func WhereFlags(f *cli.Flags, o *profiler.Options) {
	if f.Lookup("cpus") == nil {
		CPUFlag(f, &o.CPUs, CPUHelp)
	}
	cli.Parsed(f, &o.Precision, parsePrecision, "precision", "P", "measure until the interval is at most ± P of the cycles, or ± P cycles where "+
		"that is more, or until more time does not help").Fallback = "1%"
	cli.Parsed(f, &o.Budget, cli.ParseDuration, "budget", "TIME", "longest time to spend on one timing of a block, such as 500ms; each further timing has as "+
		"much again: a loop beside copies in a row, and what is repeated because other work disturbed it").Fallback = "3s"
}

// Title heads the group of flags that most measuring commands share.
const Title = "How to measure"

func Topic() cli.Topic {
	return cli.Topic{
		Name:    "measuring",
		Title:   Title,
		Summary: "the flags that say how to measure",
		Pointer: "the flags that say how to measure, such as -cpus, -budget, -precision, -mode and -unroll: see bbprof help measuring",
		About: "These flags say how to measure. Most commands that measure blocks take all of them; ablate, doctor\n" +
			"and selftest take -cpus, -precision and -budget, and capture and dataset -cpus alone.\n",
		Declare: func(f *cli.Flags) { Flags(f, new(profiler.Options)) },
	}
}

// Flags declares the flags of Topic as a group.
func Flags(f *cli.Flags, o *profiler.Options) {
	f.OnTopic(Title)
	WhereFlags(f, o)
	howToMeasure(f, o)
}

// LayoutFlags declares the flags that select one mode of a block that may have several.
func LayoutFlags(f *cli.Flags, o *profiler.Options) {
	f.Toggle(&o.Strict, "strict", "reject a block whose time depends on the layout, as unstable, instead of giving the mean over layouts")
	parse := within(0, profiler.Layouts-1, "write the number of a layout, 0 to %d")
	cli.Parsed(f, &o.Layout, func(s string) (*int, error) { n, err := parse(s); return &n, err }, "layout", "N",
		fmt.Sprintf("measure in this layout alone, 0 to %d: the first copy starts %d·(N/%d) bytes into a "+
			"cache line, and the rename phase is the remainder of N/%[3]d (docs/method.md; default: the mean over all)",
			profiler.Layouts-1, timing.PlaceBytes, timing.DispatchOffsets))
}

// howToMeasure declares the measuring flags except those of WhereFlags.
func howToMeasure(f *cli.Flags, o *profiler.Options) {
	cli.Parsed(f, &o.Unroll, parseUnroll, "unroll", "U,V", "time U and V copies of the block, U < V; 0,V is Equation 1 "+
		"of the BHive paper, the time of V copies divided by V; a loop alone runs the block so often "+
		"(default: what the front end holds)")
	cli.Choice(f, &o.Mode, profiler.Modes(), "mode", "MODE", "loop: copies in a counted loop, which runs hot; unroll: copies in a row, "+
		"the BHive paper's way; both: one after the other; hot: loop, and both where the block loads what it stored (default: hot, and unroll with -unroll "+
		"or -frontend decode; explain, bounds and sweep: unroll)")
	cli.Choice(f, &o.Branch, profiler.Branches(), "branch", "HOW", "what becomes of a jcc, jmp, loop or jrcxz at the "+
		"block's end: not-taken: it stands in each copy, inverted where the state would "+
		"take it; taken: it closes a loop of the block; drop: it is left out (default: taken if it leads to the block's own start, else not-taken)")
	cli.Parsed(f, &o.Copies, within(1, profiler.MaxBlock, "write a number from 1 to %d"), "bodies", "N",
		"put N copies of the body before the branch of a loop").Fallback = "1"
	cli.Choice(f, &o.FrontEnd, profiler.FrontEnds(), "frontend", "NAME", "what serves unrolled copies: opcache, as in a program that is hot; decode: the "+
		"legacy decoders, as in measurements without the op cache").Fallback = string(profiler.FrontEnds()[0])
	cli.Parsed(f, &o.Frames, parseFrames, "frames", "N", "put the block's pages on N physical pages; 1 is the BHive paper's way (default: auto, "+
		"which is 1, and one for each page where sharing it would cost time)")
	cli.Parsed(f, &o.Init, func(s string) (string, error) { _, err := initial.Named(s); return s, err }, "init", "NAME",
		"the one initial state to use: "+strings.Join(initial.Names(), ", ")+" (default: paper, and the others but bhive where it makes the block fail); "+
			"bhive is that of BHive's released harness, with its frame and its numbers of copies unless -frames and "+
			"-unroll say otherwise").Choices = initial.Names()
	f.Declare(cli.Flag{Name: "set", Arg: "REG=VALUE[,...]", Help: "what registers hold before each run instead of what " +
		"the initial state has: rdi=0x12346600, zf=1, " +
		"xmm0=0x3f800000, k1=0xff, mxcsr=0x1f80, fs_base=0x20000000, fill=0x3ff0000000000000 (the word that fills memory); may be repeated (docs/capture.md)",
		Set: func(s string) error {
			more, err := initial.ParseSet(s)
			if err != nil {
				return err
			}
			o.Set, err = o.Set.And(more)
			return err
		}})
	cli.Choice(f, &o.Clock, profiler.Clocks(), "clock", "NAME", "perf: core cycles from hardware counters; tsc: the time-stamp counter, calibrated "+
		"against chains of adds; auto: perf where the kernel offers it").Fallback = string(profiler.AutoClock)
	cli.Parsed(f, &o.Identical, within(1, timing.PaperTimings, "write a number from 1 to %d, of so many timings"),
		"identical", "N", "on the perf clock, accept a time if at least N of 16 timings are clean "+
			"(no L1 miss, split access or context switch) and identical (default: 8, the BHive paper's rule; fewer relax it)")
	cli.Parsed(f, &o.Events, parseEvents, "events", "A,B", "count these events too, per iteration: names as perf list has them, rNNNN for a raw "+
		"code, or cpu/event=0x..,umask=0x../ (docs/install.md)")
	f.Off(&o.NoRescue, "rescue", "with -rescue=false, use the paper's initial state alone, even if the block fails in it")
	f.Off(&o.NoFTZ, "ftz", "with -ftz=false, compute subnormal numbers instead of flushing them to zero, for comparison")
}

// maxCopies is the number of one-byte copies that fit.
const maxCopies = layout.CodeSize

func parseUnroll(s string) (*unroll.Factors, error) {
	short, long, ok := strings.Cut(s, ",")
	u, err1 := strconv.Atoi(strings.TrimSpace(short))
	v, err2 := strconv.Atoi(strings.TrimSpace(long))
	switch {
	case !ok || err1 != nil || err2 != nil:
		return nil, errors.New("write two numbers of copies, such as 100,200")
	case u < 0:
		return nil, fmt.Errorf("the first number of copies must be at least 0, not %d", u)
	case u >= v:
		return nil, fmt.Errorf("the second number must be larger than the first: the throughput comes from their difference")
	case v > maxCopies:
		return nil, fmt.Errorf("there is room for %d bytes of code, so for at most as many copies", maxCopies)
	}
	return &unroll.Factors{Short: u, Long: v}, nil
}

// within parses whole numbers of a range.
func within(low, high int, write string) func(string) (int, error) {
	return func(s string) (int, error) { return cli.WholeNumber(s, low, high, "%s", fmt.Sprintf(write, high)) }
}

func parseFrames(s string) (int, error) {
	if s == "auto" {
		return profiler.AutoFrames, nil
	}
	return cli.WholeNumber(s, 1, layout.MaxFrames, "write auto or a number from 1 to %d", layout.MaxFrames)
}

// parseEvents reads a list such as instructions,r01c2,cpu/event=0xd1,umask=0x8/. Only the kernel knows what an event
// means.
func parseEvents(s string) ([]string, error) {
	names := pmu.SplitNames(s)
	for _, n := range names {
		if n == "" {
			return nil, errors.New("write names or codes with commas between them, such as instructions,r01c2")
		}
	}
	return names, nil
}

// parsePrecision reads a fraction such as 0.005 or 0.5%.
func parsePrecision(s string) (float64, error) {
	p, err := cli.ParseShare(s)
	if err != nil || !(p > 0 && p < 1) {
		return 0, errors.New("write a fraction between 0 and 1, such as 0.005, or percent, such as 0.5%")
	}
	return p, nil
}
