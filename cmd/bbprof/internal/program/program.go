// Package program implements the commands about whole programs.
package program

import "github.com/bbprof/bbprof/cmd/bbprof/internal/cli"

func Commands() []*cli.Command {
	return []*cli.Command{accountCommand(), captureCommand(), countCommand()}
}
