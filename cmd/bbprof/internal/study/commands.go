// Package study implements the commands that ask what a block's or a program's time depends on, or compare two.
package study

import "github.com/bbprof/bbprof/cmd/bbprof/internal/cli"

func Commands() []*cli.Command {
	return []*cli.Command{ablateCommand(), boundsCommand(), checkCommand(), compareCommand(), explainCommand(), sweepCommand()}
}
