// Command bbprof measures how many core cycles a basic block takes at steady state. See
// bbprof -h.
//
// A subcommand is a file with a command (see command.go) and its row in subjects.
package main

import (
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/bbprof/bbprof/asm"
	_ "github.com/bbprof/bbprof/internal/limits" // ends a process that may use too little
	"github.com/bbprof/bbprof/profiler"
)

func main() {
	// A thread that waits for its child is in a system call. As long as there is an idle
	// processor besides, Go's monitor lets it be; if there is none, it wakes every 20 µs to check
	// whether it can take that one (runtime/proc.go, sysmon and retake), each time at the expense
	// of the worker that measures on the CPU. So there are two more than threads can run at a time.
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	// A collection runs on the CPUs that workers measure on. Memory that nobody touches makes it rare, since the next one begins
	// when the heap has doubled: 2,000 blocks took 2.1 s without it and 1.5 with it (two CPUs, Zen 4).
	ballast := make([]byte, 48<<20)
	ignoreFileLimit()
	code := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// A subject is a group of commands in bbprof -h.
type subject struct {
	title    string
	commands []*command
}

// subjects are all commands but the main job, bbprof -hex.
func subjects() []subject {
	return []subject{
		{"Measure a corpus", []*command{extractCommand(), captureCommand(), batchCommand(), convertCommand(), datasetCommand(), accountCommand()}},
		{"Understand a block", []*command{boundsCommand(), explainCommand(), sweepCommand(), ablateCommand(), countCommand()}},
		{"Decide between two", []*command{compareCommand(), checkCommand()}},
		{"Judge models", []*command{scoreCommand(), huntCommand(), instructionsCommand()}},
		{"This host and this program", []*command{doctorCommand(), selftestCommand(), versionCommand(), completionCommand(), helpCommand()}},
	}
}

func commands() []*command {
	all := []*command{blockCommand()}
	for _, s := range subjects() {
		all = append(all, s.commands...)
	}
	return all
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &lossless{Writer: stdout}
	return out.exitCode(dispatch(args, streams{stdin, out, stderr}), stderr)
}

func dispatch(args []string, std streams) int {
	if len(args) == 0 {
		io.WriteString(std.err, blockCommand().overview())
		return exitUsage
	}
	name := args[0]
	if name == "--version" || name == "-version" {
		name = "version"
	}
	if strings.HasPrefix(name, "-") {
		return blockCommand().run(args, std)
	}
	if c := find(name); c != nil {
		return c.run(args[1:], std)
	}
	return finish("", unknownCommand(name, args[1:]), std)
}

func unknownCommand(name string, rest []string) error {
	if _, err := asm.ParseHex(name, profiler.MaxBlock); err == nil {
		return badUsage("unknown command %q: to measure a block, write bbprof -hex %s", name, name)
	}
	if _, err := os.Stat(name); err == nil {
		return badUsage("unknown command %q: to measure the blocks of a file, write bbprof batch %s", name, name)
	}
	if text := strings.Join(append([]string{name}, rest...), " "); assemblyHint(text) != "" {
		return badUsage("unknown command %q: to measure assembly, write bbprof -asm '%s'", name, text)
	}
	return badUsage("unknown command %q%s (bbprof -h lists the commands)", name, didYouMean("", name, commandNames()))
}

func commandNames() (names []string) {
	for _, c := range commands()[1:] {
		names = append(names, c.name)
	}
	return names
}
