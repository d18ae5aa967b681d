// Package host has the commands that say what this machine can measure, and whether bbprof measures right on it.
package host

import "github.com/bbprof/bbprof/cmd/bbprof/internal/cli"

func Commands() []*cli.Command {
	return []*cli.Command{doctorCommand(), selftestCommand()}
}
