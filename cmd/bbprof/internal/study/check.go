package study

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:     "check",
		Summary:  "find functions that a change has made slower, for continuous integration",
		Synopsis: []string{"check [flags] BASE HEAD  (two builds of a program or library, or two files of blocks)"},
		About: `It matches the blocks and loops of both builds, function by function, and measures only those that
changed: base and head in turn, in the same random layouts, in one process, so neither another
machine nor another minute comes between them. Equal code is equally fast and is not measured, but
for loops that stand elsewhere in a cache line, whose difference is the layout's. The verdict is
  slower        by more than -threshold, with the whole interval
  faster, same  likewise, or within the threshold on both sides
  unclear       the interval is on no one side: more -layouts
  layout        the same code, whose time differs where it stands now: no fault of the change
  listed        new or gone, or of an unknown number of executions: nothing to compare with
Intervals hold jointly in 95 % of runs, however many changes there are.
`,
		Notes: "docs/ci.md has workflows for GitHub and GitLab, and what the verdicts mean.\n",
		Examples: `bbprof check build-main/app build/app
bbprof check -func 'parse|lex' -profile callgrind.out.17 base.so head.so
bbprof check -format markdown -summary "$GITHUB_STEP_SUMMARY" base.o head.o
`,
		Exits: cli.Exits("nothing that -fail-on names", "some function is slower, or what else -fail-on names", map[int]string{
			cli.ExitUsage: "bad usage, or a file that cannot be read or holds no code",
			cli.ExitHost:  "this host cannot measure, or was too busy for any verdict: no fault of the change"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			c := checkCmd{threshold: 0.03, failOn: failOnSlower, format: formatText, layouts: 24, seed: 1}
			f.Operands = &c.builds
			cli.Parsed(f, &c.threshold, cli.ParseShare, "threshold", "P", "difference to accept: a fraction such as 0.05, or 5%").Fallback = "3%"
			cli.Parsed(f, &c.functions, regexp.Compile, "func", "NAME", "functions whose demangled name matches NAME, a regular expression")
			f.Text(&c.profile, "profile", "FILE", "weigh the pieces of each function by how often the base ran them: what valgrind --tool=callgrind "+
				"--dump-instr=yes wrote, or the text of perf script --show-mmap-events")
			cli.Choice(f, &c.failOn, failOns, "fail-on", "WHAT", "exit with 1 if a function is slower; any: or faster, unclear, or slower by its layout; none: never").Fallback = string(failOnSlower)
			names := slices.Sorted(maps.Keys(formats))
			cli.Choice(f, &c.format, names, "format", "F", "write for other tools: "+strings.Join(names, ", ")).Fallback = formatText
			cli.Parsed(f, &c.summary, appendable, "summary", "FILE", "also append the report in Markdown to FILE, such as $GITHUB_STEP_SUMMARY; nothing if that is empty")
			f.Repeats(&c.layouts, 4, "layouts", "layouts to measure in")
			f.Seed(&c.seed, "makes other layouts; the same seed makes the same")
			c.out.AddFile(f)
			blockflags.Flags(f, &c.measuring)
			return c.out.Resumable(f, c.run)
		},
	}
}

type failOn string

const (
	failOnSlower failOn = "slower"
	failOnAny    failOn = "any"
	failOnNone   failOn = "none"
)

var failOns = []failOn{failOnSlower, failOnAny, failOnNone}

type checkCmd struct {
	measuring profiler.Options
	builds    []string
	functions *regexp.Regexp
	profile   string
	threshold float64
	layouts   int
	seed      uint64
	failOn    failOn
	format    string
	summary   string
	out       cli.Output
}

// checked is a finished check.
type checked struct {
	Base      string           `json:"base"`
	Head      string           `json:"head"`
	Threshold float64          `json:"threshold"`
	Machine   machine          `json:"machine"`
	Equal     int              `json:"equal_functions"`
	Functions []check.Function `json:"functions"`
	// Incomplete says why not all changes were measured.
	Incomplete string `json:"incomplete,omitempty"`
}

func (c *checkCmd) run(std cli.Streams) error {
	r := cli.Rules{Err: blockflags.OneMode(&c.measuring, profiler.Hot)}
	r.Not(len(c.builds) != 2, "name two builds, BASE and HEAD; %s", cli.HowMany(c.builds))
	r.Not(len(c.builds) == 2 && c.builds[0] == "-" && c.builds[1] == "-", "standard input can be one of the two")
	if r.Err != nil {
		return r.Err
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	found, err := c.match(ctx, std)
	if err != nil {
		return err
	}
	changes := 0
	for _, f := range found.Functions {
		changes += len(f.Changes)
	}
	if changes > 0 {
		err = c.measure(ctx, std, found.Functions, changes)
	}
	if busy := (*verdict.HostError)(nil); err != nil && !errors.As(err, &busy) && !cli.Stopped(err) {
		return err
	}
	if err != nil {
		found.Incomplete = err.Error()
	}
	return cli.Ended(err, true, func() error {
		if unwritten := c.write(std, found); unwritten != nil || err != nil {
			return unwritten
		}
		return c.outcome(found)
	})
}

func (c *checkCmd) match(ctx context.Context, std cli.Streams) (checked, error) {
	found := checked{Base: c.builds[0], Head: c.builds[1], Threshold: c.threshold, Machine: machineOf(host.Detect(c.measuring.CPUs...))}
	var sides [2][]check.Piece
	for i, name := range c.builds {
		profile := ""
		if i == 0 {
			profile = c.profile
		}
		var err error
		if sides[i], err = c.readBuild(ctx, name, profile, std); err != nil {
			return found, err
		}
	}
	found.Functions, found.Equal = check.Match(sides[0], sides[1])
	return found, nil
}

func (c *checkCmd) measure(ctx context.Context, std cli.Streams, functions []check.Function, changes int) error {
	measuring := c.measuring
	measuring.Inner = true // for loops of several blocks
	p, err := blockflags.Open(ctx, std, measuring)
	if err != nil {
		return err
	}
	defer p.Close()
	done := cli.Progress(c.out.Notes(std), changes, "changes")
	defer done.End()
	return check.Run(ctx, pool.Profiler(p), functions, check.Options{
		Threshold: c.threshold, Layouts: c.layouts, Seed: c.seed, Weighted: c.profile != "", Done: done.Step,
	})
}

func (c *checkCmd) write(std cli.Streams, found checked) error {
	if err := c.out.Stream(std, func(w io.Writer) error { return formats[c.format](w, found) }); err != nil || c.summary == "" {
		return err
	}
	var text bytes.Buffer
	if err := markdown(&text, found); err != nil {
		return err
	}
	if err := appendTo(c.summary, text.Bytes()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// appendable returns the name of a file that can be appended to, as far as can be told before time is spent on measuring.
func appendable(name string) (string, error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return name, appendTo(name, nil)
	}
	return name, cli.Replaceable(name)
}

func appendTo(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// outcome is how the command ends: where the machine left a change without a verdict, none has failed, nor passed.
func (c *checkCmd) outcome(found checked) error {
	fails, noisy, why := false, 0, ""
	for _, f := range found.Functions {
		for _, x := range f.Changes {
			if x.What == check.Changed && x.Disturbed() {
				noisy, why = noisy+1, x.Rejection.Error()
			}
		}
		fails = fails || c.fails(f)
	}
	switch {
	case fails:
		return cli.ErrRejected
	case noisy > 0:
		return &verdict.HostError{Missing: fmt.Sprintf("%s could not be measured: %s", words.Plural(noisy, "change"), why), Busy: true,
			Remedy: "repeat the job, or choose another CPU with -cpus"}
	}
	return nil
}

// fails reports whether a function is what -fail-on names.
func (c *checkCmd) fails(f check.Function) bool {
	v := f.Verdict(c.threshold)
	switch c.failOn {
	case failOnAny:
		return slices.Contains([]check.Verdict{check.Slower, check.Faster, check.Unclear, check.Layout}, v)
	case failOnSlower:
		return v == check.Slower
	}
	return false
}

// machine is where a check ran, for a reader who compares jobs.
type machine struct {
	Core  string `json:"core"`
	Brand string `json:"brand"`
	host.Machine
}

func machineOf(c host.CPU) machine {
	return machine{string(c.Microarchitecture), strings.TrimSpace(c.Brand), host.ThisMachine()}
}

func (m machine) String() string { return fmt.Sprintf("%s (%s), %s", m.Brand, m.Core, m.Machine) }
