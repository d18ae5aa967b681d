package main

import (
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// studyCommands are those of this subject.
func studyCommands() []*cli.Command {
	return []*cli.Command{ablateCommand(), boundsCommand(), checkCommand(), compareCommand(), explainCommand(), sweepCommand()}
}
