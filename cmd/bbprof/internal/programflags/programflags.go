// Package programflags holds what the commands that run programs share.
package programflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

func RunFlags(f *cli.Flags, timeout *time.Duration, stdin *string, fallback string) {
	cli.Parsed(f, timeout, cli.ParseDuration, "timeout", "TIME", "longest that one run may take, such as 30s").Fallback = fallback
	f.Text(stdin, "stdin", "FILE", "what the program reads as standard input (default: /dev/null)")
}

func AnyStatusFlag(f *cli.Flags, p *bool) {
	f.Toggle(p, "any-status", "accept a program that ends with an exit status other than 0")
}

const Title = "Of programs"

type Flags struct {
	launch.Options
	CleanEnv bool
	image    string // the program to measure among those that the command execs
}

func (p *Flags) Declare(f *cli.Flags) {
	f.Section(Title)
	RunFlags(f, &p.Timeout, &p.Stdin, "1m")
	AnyStatusFlag(f, &p.AnyStatus)
	f.Toggle(&p.CleanEnv, "clean-env", "give the program no environment but the padding")
	ProgramFlag(f, &p.image, "of the programs that the command becomes by exec, measure NAME (default: the last)")
}

func ProgramFlag(f *cli.Flags, image *string, help string) { f.Text(image, "program", "NAME", help) }

// Command prepares a command for measuring. It runs it once to find the program that it execs.
func (p Flags) Command(ctx context.Context, words []string, cpus []int, notes io.Writer) (launch.Command, error) {
	c, err := launch.NewCommand(words)
	if err != nil {
		return c, err
	}
	c.CleanEnv = p.CleanEnv
	return follow(ctx, c, p.On(cpus), p.image, notes)
}

// On says how the programs run on these CPUs.
func (p Flags) On(cpus []int) launch.Control {
	p.CPUs = cpus
	return p.Control
}

// Behind returns the program that words name, or the program called image that it execs.
func Behind(ctx context.Context, words []string, image string, o launch.Control, notes io.Writer) (launch.Command, error) {
	c, err := launch.NewCommand(words)
	if err != nil || image == "" {
		return c, err
	}
	return follow(ctx, c, o, image, notes)
}

func follow(ctx context.Context, c launch.Command, o launch.Control, image string, notes io.Writer) (launch.Command, error) {
	c, said, err := c.Follow(ctx, o, image)
	for _, note := range said {
		fmt.Fprintln(notes, "bbprof: "+note)
	}
	return c, err
}

func (p Flags) Runner(cpus []int, std cli.Streams) (*launch.Runner, error) {
	p.CPUs, p.Stderr, p.Journal = cpus, std.Err, std.Kept
	return launch.NewRunner(p.Options)
}

func NoteLeft(r *launch.Runner, w io.Writer) {
	if n := r.Left(); n > 0 {
		fmt.Fprintf(w, "bbprof: %s ended with processes of theirs still running; these were ended too, and their time is not counted\n", words.Plural(n, "run"))
	}
}

func BadInput(err error) error {
	if bad := (*extract.InputError)(nil); errors.As(err, &bad) {
		return cli.Usage(err)
	}
	return err
}

// Run calls do to find out what a program runs, or for how long.
func Run[T any](ctx context.Context, r extract.Run, stdin string, notes io.Writer, do func(*extract.Run, context.Context) (T, error)) (found T, err error) {
	if _, err := launch.Find(r.Program[0]); err != nil {
		return found, cli.Usage(err)
	}
	in, err := launch.OpenInput(cmp.Or(stdin, os.DevNull))
	if err != nil {
		return found, cli.BadUsage("-stdin: %w", err)
	}
	defer in.Close()
	r.Stdin, r.Note = in, func(note string) { fmt.Fprintln(notes, "bbprof: "+note) }
	found, err = do(&r, ctx)
	return found, BadInput(err)
}
