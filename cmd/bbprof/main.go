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

	_ "github.com/bbprof/bbprof/internal/limits" // ends a process that may use too little
)

func main() {
	// A thread that waits for its child is in a system call. As long as there is an idle
	// processor besides, Go's monitor lets it be; if there is none, it wakes every 20 µs to check
	// whether it can take that one (runtime/proc.go, sysmon and retake), each time at the expense
	// of the worker that measures on the CPU. So there are two more than threads can run at a time.
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	ignoreFileLimit()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return bbprof().run(args, stdin, stdout, stderr)
}

func bbprof() *app {
	return &app{
		purpose:  "measure the core cycles of basic blocks of x86-64 code",
		main:     blockCommand(),
		commands: slices.Concat(corpusCommands(), studyCommands(), modelCommands(), programCommands(), hostCommands()),
		headings: []heading{
			{"Measure a corpus", "extract capture batch convert dataset account"},
			{"Understand a block", "bounds explain sweep ablate count"},
			{"Decide between two", "compare check"},
			{"Judge models", "score hunt instructions"},
			{"This host and this program", "doctor selftest version completion help"},
		},
		topic:   measuringTopic(),
		unknown: instead,
		explain: explainError,
	}
}
