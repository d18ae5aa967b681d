package corpus

import (
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// Commands are those of this subject.
func Commands() []*cli.Command {
	return []*cli.Command{batchCommand(), convertCommand(), datasetCommand(), extractCommand()}
}
