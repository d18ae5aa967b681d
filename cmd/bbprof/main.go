// Command bbprof measures how many core cycles a basic block takes at steady state. See
// bbprof -h.
//
// A folder of internal is a subject; its commands are below a heading of bbprof.
package main

import (
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/block"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model"
	program "github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study"
	_ "github.com/bbprof/bbprof/internal/limits" // ends a process that may use too little
)

func main() {
	ballast := blockflags.Quiet()
	cli.IgnoreFileLimit()
	code := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return bbprof().Run(args, stdin, stdout, stderr)
}

func bbprof() *cli.App {
	return &cli.App{
		Purpose:  "measure the core cycles of basic blocks of x86-64 code",
		Main:     block.Command(),
		Commands: slices.Concat(corpus.Commands(), study.Commands(), model.Commands(), program.Commands(), host.Commands()),
		Headings: []cli.Heading{
			{Title: "Measure a corpus", Names: "extract capture batch convert dataset account"},
			{Title: "Understand a block", Names: "bounds explain sweep ablate count"},
			{Title: "Decide between two", Names: "compare check"},
			{Title: "Judge models", Names: "score hunt instructions"},
			{Title: "This host and this program", Names: "doctor selftest version completion help"},
		},
		Topic:   blockflags.Topic(),
		Unknown: block.Instead,
		Explain: blockflags.Explain,
	}
}
