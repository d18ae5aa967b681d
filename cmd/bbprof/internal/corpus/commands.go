// Package corpus has the commands that take blocks out of programs, measure them and keep the results.
package corpus

import "github.com/bbprof/bbprof/cmd/bbprof/internal/cli"

func Commands() []*cli.Command {
	return []*cli.Command{batchCommand(), convertCommand(), datasetCommand(), extractCommand()}
}
