package main

import (
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// corpusCommands are those of this subject.
func corpusCommands() []*cli.Command {
	return []*cli.Command{batchCommand(), convertCommand(), datasetCommand(), extractCommand()}
}
