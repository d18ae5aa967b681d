package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

func cpuFlag(f *flags, cpus *[]int, help string) {
	f.alias(parsed(f, cpus, cpu.ParseList, "cpus", "LIST", help+" (default: all allowed of the fastest kind of core, the last first)"), "cpu")
}

// cpuHelp is for a command with one worker.
const cpuHelp = "the CPU to measure on, and others to move to when that is busy, such as 3 or 2,3 or 0-3"

// where declares the flags that say where and for how long to measure.
func where(f *flags, o *profiler.Options) {
	if f.lookup("cpus") == nil {
		cpuFlag(f, &o.CPUs, cpuHelp)
	}
	parsed(f, &o.Precision, parsePrecision, "precision", "P", "measure until the interval is at most ± P of the cycles, or ± P cycles where "+
		"that is more, or until more time does not help").fallback = "1%"
	parsed(f, &o.Budget, parseDuration, "budget", "TIME", "longest time to spend on one timing of a block, such as 500ms; each further timing has as "+
		"much again: the loop of -mode both, other numbers of copies where the first are nonlinear or do not use up the front end's lead, and what is repeated "+
		"because other work disturbed it").fallback = "3s"
}

// measuringTitle is the group of the flags that most commands share which measure blocks.
const measuringTitle = "How to measure"

// measuring declares those flags, as a group of their own.
func measuring(f *flags, o *profiler.Options) {
	f.section(measuringTitle)
	f.topic = len(f.groups) - 1
	where(f, o)
	howToMeasure(f, o)
}

// layouts declares the flags that ask for one speed of a block that may have several.
func layouts(f *flags, o *profiler.Options) {
	f.toggle(&o.Strict, "strict", "reject a block whose time depends on the layout, as unstable, instead of giving the mean over layouts")
	f.alias(parsed(f, &o.At, parseLayout, "layout", "N", fmt.Sprintf("measure in this layout alone, 0 to %d: the first copy starts %d·(N/%d) bytes into a "+
		"cache line, and the dispatch offset is the remainder of N/%[3]d (docs/method.md; default: the mean over all)",
		profiler.Layouts-1, timing.PlaceBytes, timing.DispatchOffsets)), "at")
}

func parseLayout(s string) (*int, error) {
	n, err := wholeNumber(s, 0, profiler.Layouts-1, "write the number of a layout, 0 to %d", profiler.Layouts-1)
	return &n, err
}

// howToMeasure declares the flags of measuring but for those of where.
func howToMeasure(f *flags, o *profiler.Options) {
	parsed(f, &o.Unroll, parseUnroll, "unroll", "U,V", "time U and V copies of the block, U < V; with -mode loop, a loop that runs it so often (default: what the front end holds)")
	choice(f, &o.Mode, profiler.Modes(), "mode", "MODE", "unroll: copies in a row; loop: copies in a counted loop; both: one after the other").fallback = string(profiler.Modes()[0])
	choice(f, &o.FrontEnd, profiler.FrontEnds(), "frontend", "NAME", "what serves unrolled copies: opcache, as in a program that is hot; decode: the "+
		"legacy decoders, as in measurements without the op cache").fallback = string(profiler.FrontEnds()[0])
	parsed(f, &o.Frames, parseFrames, "frames", "N", "put the block's pages on N physical pages; 1 is the BHive paper's way (default: auto, "+
		"which is 1, and one for each page where sharing it would cost time)")
	var inits []string
	for _, i := range initial.States() {
		inits = append(inits, i.Name)
	}
	parsed(f, &o.Init, func(s string) (string, error) { _, err := initial.Named(s); return s, err }, "init", "NAME",
		"the one initial state to use: "+strings.Join(inits, ", ")+" (default: paper, and the others where it makes the block fail)").choices = inits
	f.declare(flagDecl{name: "set", arg: "REG=VALUE[,...]", help: "what registers hold before each run instead of what the initial state has: rdi=0x12346600, zf=1, " +
		"xmm0=0x3f800000, k1=0xff, mxcsr=0x1f80, fs_base=0x20000000, fill=0x3ff0000000000000 (the word that fills memory); may be repeated (docs/capture.md)",
		set: func(s string) error {
			more, err := initial.ParseSet(s)
			if err != nil {
				return err
			}
			o.Set, err = o.Set.And(more)
			return err
		}})
	choice(f, &o.Clock, profiler.Clocks(), "clock", "NAME", "perf: core cycles from hardware counters; tsc: the time-stamp counter, calibrated "+
		"against chains of adds; auto: perf where the kernel offers it").fallback = string(profiler.AutoClock)
	parsed(f, &o.Identical, parseIdentical, "identical", "N", "on the perf clock, accept a time if at least N of 16 timings are clean "+
		"(no L1 miss, split access or context switch) and identical (default: 8, the BHive paper's rule; fewer relax it)")
	parsed(f, &o.Events, parseEvents, "events", "A,B", "count these events too, per iteration: names as perf list has them, rNNNN for a raw "+
		"code, or cpu/event=0x..,umask=0x../ (docs/install.md)")
	off(f, &o.NoRescue, "rescue", "with -rescue=false, use the paper's initial state alone, even if the block fails in it")
	off(f, &o.NoFTZ, "ftz", "with -ftz=false, compute subnormal numbers instead of flushing them to zero, for comparison")
}

// off declares a switch that is on by default; p is set when it is switched off.
func off(f *flags, p *bool, name, help string) {
	f.declare(flagDecl{name: name, help: help, choices: []string{"true", "false"}, set: func(s string) error {
		on, err := parseBool(s)
		*p = !on
		return err
	}})
}

// maxCopies is how many copies of a one-byte block there is room for.
const maxCopies = layout.CodeSize

// parseUnroll reads u,u' such as 100,200.
func parseUnroll(s string) (*unroll.Factors, error) {
	short, long, ok := strings.Cut(s, ",")
	u, err1 := strconv.Atoi(strings.TrimSpace(short))
	v, err2 := strconv.Atoi(strings.TrimSpace(long))
	switch {
	case !ok || err1 != nil || err2 != nil:
		return nil, errors.New("write two numbers of copies, such as 100,200")
	case u < 1:
		return nil, fmt.Errorf("the first number of copies must be at least 1, not %d", u)
	case u >= v:
		return nil, fmt.Errorf("the second number must be larger than the first: the throughput comes from their difference")
	case v > maxCopies:
		return nil, fmt.Errorf("there is room for %d bytes of code, so for at most as many copies", maxCopies)
	}
	return &unroll.Factors{Short: u, Long: v}, nil
}

func parseFrames(s string) (int, error) {
	if s == "auto" {
		return profiler.AutoFrames, nil
	}
	return wholeNumber(s, 1, layout.MaxFrames, "write auto or a number from 1 to %d", layout.MaxFrames)
}

func parseIdentical(s string) (int, error) {
	return wholeNumber(s, 1, timing.PaperTimings, "write a number from 1 to %d, of so many timings", timing.PaperTimings)
}

// parseEvents reads a list such as instructions,r01c2,cpu/event=0xd1,umask=0x8/. What an event
// means only this kernel knows.
func parseEvents(s string) ([]string, error) {
	names := pmu.SplitNames(s)
	for _, n := range names {
		if n == "" {
			return nil, errors.New("write names or codes with commas between them, such as instructions,r01c2")
		}
	}
	return names, nil
}

// parsePrecision reads a share such as 0.005 or 0.5%.
func parsePrecision(s string) (float64, error) {
	p, err := parseShare(s)
	if err != nil || !(p > 0 && p < 1) {
		return 0, errors.New("write a fraction between 0 and 1, such as 0.005, or percent, such as 0.5%")
	}
	return p, nil
}
