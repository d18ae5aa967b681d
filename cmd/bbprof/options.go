package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

// where adds the flags that say where and for how long to measure. The flag package names
// flag and value before each of their errors.
func where(f *flag.FlagSet, o *profiler.Options) {
	f.Func("cpu", "", func(s string) (err error) {
		o.CPUs, err = host.ParseList(s)
		return err
	})
	f.Func("precision", "", func(s string) (err error) {
		o.Precision, err = parsePrecision(s)
		return err
	})
	f.Func("budget", "", func(s string) (err error) {
		o.Budget, err = parseBudget(s)
		return err
	})
}

// measuring adds the flags that all commands share which measure the user's blocks.
func measuring(f *flag.FlagSet, o *profiler.Options) {
	where(f, o)
	f.Func("unroll", "", func(s string) (err error) {
		o.Unroll, err = parseUnroll(s)
		return err
	})
	f.Func("frames", "", func(s string) (err error) {
		o.Frames, err = parseFrames(s)
		return err
	})
	f.Func("init", "", func(s string) (err error) {
		o.Init, err = parseInit(s)
		return err
	})
	f.Func("mode", "", func(s string) (err error) {
		o.Mode, err = parseName(s, profiler.Modes())
		return err
	})
	f.Func("frontend", "", func(s string) (err error) {
		o.FrontEnd, err = parseName(s, profiler.FrontEnds())
		return err
	})
	f.Func("clock", "", func(s string) (err error) {
		o.Clock, err = parseName(s, profiler.Clocks())
		return err
	})
	f.Func("identical", "", func(s string) (err error) {
		o.Identical, err = parseIdentical(s)
		return err
	})
	f.Func("events", "", func(s string) (err error) {
		o.Events, err = parseEvents(s)
		return err
	})
	f.BoolFunc("rescue", "", parseSwitch(&o.NoRescue))
	f.BoolFunc("ftz", "", parseSwitch(&o.NoFTZ))
}

// parseSwitch reads true or false for an option that is on by default; off is what it sets.
func parseSwitch(off *bool) func(string) error {
	return func(s string) error {
		on, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("write true or false")
		}
		*off = !on
		return nil
	}
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
		return nil, fmt.Errorf("%d copies are none; the first number must be at least 1", u)
	case u >= v:
		return nil, fmt.Errorf("the second number must be larger than the first: the throughput comes from their difference")
	case v > maxCopies:
		return nil, fmt.Errorf("there is room for %d bytes of code, so for at most so many copies", maxCopies)
	}
	return &unroll.Factors{Short: u, Long: v}, nil
}

func parseFrames(s string) (int, error) {
	if s == "auto" {
		return profiler.AutoFrames, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > layout.MaxFrames {
		return 0, fmt.Errorf("write auto or a number from 1 to %d", layout.MaxFrames)
	}
	return n, nil
}

func parseInit(s string) (string, error) {
	var names []string
	for _, init := range initial.States() {
		if init.Name == s {
			return s, nil
		}
		names = append(names, init.Name)
	}
	return "", fmt.Errorf("the initial states are %s", strings.Join(names, ", "))
}

// parseName reads one of some names.
func parseName[T ~string](s string, names []T) (T, error) {
	if i := slices.Index(names, T(s)); i >= 0 {
		return names[i], nil
	}
	var list []string
	for _, n := range names {
		list = append(list, string(n))
	}
	return "", fmt.Errorf("write %s", strings.Join(list, " or "))
}

// parseIdentical reads how many timings have to be clean and identical.
func parseIdentical(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > invariants.PaperTimings {
		return 0, fmt.Errorf("write a number from 1 to %d, of so many timings", invariants.PaperTimings)
	}
	return n, nil
}

// parseEvents reads a list such as instructions,r01c2,cpu/event=0xd1,umask=0x8/. What an event
// means only the kernel at hand knows.
func parseEvents(s string) ([]string, error) {
	names := pmu.SplitNames(s)
	if slices.Contains(names, "") {
		return nil, errors.New("write names or codes with commas between them, such as instructions,r01c2")
	}
	return names, nil
}

// parsePrecision reads a share such as 0.005.
func parsePrecision(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p > 0 && p < 1) {
		return 0, errors.New("write a share between 0 and 1, such as 0.005 for half a percent")
	}
	return p, nil
}

func parseBudget(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, errors.New("write a number with its unit, such as 500ms or 10s")
	case d <= 0:
		return 0, errors.New("no time is left to measure in; write a duration above 0, such as 500ms")
	}
	return d, nil
}
