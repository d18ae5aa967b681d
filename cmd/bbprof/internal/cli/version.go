package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() *Command {
	return &Command{
		Name:     "version",
		Summary:  "say what this binary was built from",
		Synopsis: []string{"version"},
		Exits:    map[int]string{ExitOK: "done", ExitUsage: ""},
		Setup: func(f *Flags) func(Streams) error {
			f.Stray = "version takes no argument"
			return func(std Streams) error {
				return WriteText(std, fmt.Sprintf("bbprof %s %s %s/%s\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
			}
		},
	}
}

// Set by make build with -ldflags -X; builds with -buildvcs=false or from an archive lack them otherwise.
var version, commit string

func Version() string {
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
