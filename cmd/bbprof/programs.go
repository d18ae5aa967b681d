package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
)

// sameSignal is how long a signal counts as the one before: timeout(1), say, sends it to the
// process and then to the process's group.
const sameSignal = 200 * time.Millisecond

// untilSignal is a context that the first signal ends; then signals are the default's again,
// so a second one ends bbprof at once.
func untilSignal() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, stop) })
	return ctx, func() {
		if ctx.Err() == nil {
			stop()
		}
	}
}

// runFlags declares what says how a program runs.
func runFlags(f *flags, timeout *time.Duration, stdin *string, fallback string) {
	parsed(f, timeout, parseDuration, "timeout", "TIME", "longest that one run may take, such as 30s").fallback = fallback
	f.text(stdin, "stdin", "FILE", "what the program reads as standard input (default: /dev/null)")
}

func anyStatusFlag(f *flags, p *bool) {
	f.toggle(p, "any-status", "accept a program that ends with an exit status other than 0")
}

// programsTitle is the group of the flags of whole programs that are measured.
const programsTitle = "Of programs"

type programFlags struct {
	program.Options
	cleanEnv bool
}

func (p *programFlags) declare(f *flags) {
	f.section(programsTitle)
	runFlags(f, &p.Timeout, &p.Stdin, "1m")
	anyStatusFlag(f, &p.AnyStatus)
	f.toggle(&p.cleanEnv, "clean-env", "give the program no environment but the padding")
}

func (p programFlags) command(words []string) (program.Command, error) {
	c, err := program.NewCommand(words)
	c.CleanEnv = p.cleanEnv
	return c, err
}

func (p programFlags) runner(cpus []int, std streams) (*program.Runner, error) {
	p.CPUs, p.Stderr = cpus, std.err
	return program.NewRunner(p.Options)
}

// noteLeft says what was not counted.
func noteLeft(r *program.Runner, w io.Writer) {
	if n := r.Left(); n > 0 {
		fmt.Fprintf(w, "bbprof: %s ended with processes of theirs still running; these were ended too, and their time is not counted\n", plural(n, "run"))
	}
}
