package main

import (
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// modelCommands are those of this subject.
func modelCommands() []*cli.Command {
	return []*cli.Command{huntCommand(), instructionsCommand(), scoreCommand()}
}
