package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/bounds"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

// units says which classes of work this core executes in the same units: as found here before, or measured
// now and kept for the next time.
func units(ctx context.Context, opts profiler.Options) (bounds.Conflicts, error) {
	file, cpu := unitsFile(), host.Detect()
	if c, err := readUnits(file); err == nil && c.CPU == bounds.CPUOf(cpu.Brand, string(cpu.Microarchitecture)) && slices.Equal(c.Probes, bounds.Probes()) {
		return c, nil
	}
	opts.Detail = true
	p, err := profiler.New(opts)
	if err != nil {
		return bounds.Conflicts{}, err
	}
	defer p.Close()
	c, err := bounds.MeasureConflicts(ctx, p)
	if err == nil && file != "" {
		keepUnits(file, c) // without it they are measured again
	}
	return c, err
}

// unitsFile is "" where the user has no place for caches.
func unitsFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "bbprof", "units.json")
}

func readUnits(file string) (c bounds.Conflicts, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

func keepUnits(file string, c bounds.Conflicts) {
	text, err := json.Marshal(c)
	if err != nil || os.MkdirAll(filepath.Dir(file), 0o755) != nil {
		return
	}
	next, err := os.CreateTemp(filepath.Dir(file), "units-*")
	if err != nil {
		return
	}
	_, err = next.Write(text)
	if closed := next.Close(); err != nil || closed != nil || os.Rename(next.Name(), file) != nil {
		os.Remove(next.Name())
	}
}

// unitsReport lists the classes that the core tells apart, and by how much others are in each other's way.
func unitsReport(c bounds.Conflicts) string {
	var w strings.Builder
	w.WriteString("\nclasses of work, by cycles of one among its like and by conflict (0: separate units, 1: the same)\n")
	w.WriteString(c.String())
	var same []string
	for _, g := range c.Groups() {
		if len(g) > 1 {
			same = append(same, strings.Join(g, " and "))
		}
	}
	if len(same) > 0 {
		fmt.Fprintf(&w, "in the same units: %s\n", strings.Join(same, "; "))
	}
	return w.String()
}
