// Package model has the commands that judge models, and the one that measures instructions.
package model

import "github.com/bbprof/bbprof/cmd/bbprof/internal/cli"

func Commands() []*cli.Command {
	return []*cli.Command{huntCommand(), instructionsCommand(), scoreCommand()}
}
