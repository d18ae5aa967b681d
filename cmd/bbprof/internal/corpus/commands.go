// Package corpus holds the commands that extract blocks from programs, measure them and store the results.
package corpus

import "github.com/bbprof/bbprof/cmd/bbprof/internal/cli"

func Commands() []*cli.Command {
	return []*cli.Command{batchCommand(), convertCommand(), datasetCommand(), extractCommand()}
}
