package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() *command {
	return &command{
		name:     "version",
		summary:  "say what this binary was built from",
		synopsis: []string{"version"},
		exits:    map[int]string{exitOK: "done", exitUsage: ""},
		setup: func(f *flags) func(streams) error {
			f.stray = "version takes no argument"
			return func(std streams) error {
				return writeText(std, fmt.Sprintf("bbprof %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
			}
		},
	}
}

// Set by make build, with -ldflags -X: a build with -buildvcs=false, or from an archive, does not know
// them otherwise.
var version, commit string

func versionText() string {
	module, revision := version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if module == "" {
			module = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && revision == "" {
				revision = s.Value
			}
		}
	}
	if revision == "" {
		return module
	}
	return module + " " + revision
}
