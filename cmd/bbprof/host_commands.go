package main

import (
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// hostCommands are those of this subject.
func hostCommands() []*cli.Command {
	return []*cli.Command{doctorCommand(), selftestCommand()}
}
