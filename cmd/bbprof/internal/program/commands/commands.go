// Package commands implements the commands about whole programs.
package commands

import "github.com/bbprof/bbprof/cmd/bbprof/internal/cli"

func Commands() []*cli.Command {
	return []*cli.Command{accountCommand(), captureCommand(), countCommand()}
}
