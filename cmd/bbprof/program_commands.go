package main

import (
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// programCommands are those of this subject.
func programCommands() []*cli.Command {
	return []*cli.Command{accountCommand(), captureCommand(), countCommand()}
}
