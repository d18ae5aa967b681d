package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// Resumable declares -resume for a command that may run for long, and returns run with a journal beside its output: what it
// measures is on file at once, and is not measured again. others are further outputs that may be named instead of -o.
func (o *Output) Resumable(f *Flags, run func(Streams) error, others ...*string) func(Streams) error {
	resume := false
	f.Toggle(&resume, "resume", "go on where this command was ended: FILE.journal has what it measured")
	last, at := f.Decls[len(f.Decls)-1], slices.Index(f.Decls, f.Lookup("o"))
	last.group = f.Decls[at].group
	f.Decls = slices.Insert(f.Decls[:len(f.Decls)-1], at+1, last) // beside -o
	return func(std Streams) error {
		output := o.File
		for _, other := range others {
			if output == "" || output == "-" {
				output = *other
			}
		}
		if info, err := os.Stat(output); output == "" || output == "-" || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			if resume {
				return BadUsage("-resume goes on from FILE.journal; name the file with -o")
			}
			return run(std)
		}
		path := strings.TrimRight(output, "/") + ".journal"
		by, _ := json.Marshal(append([]string{journal.Core(*f.CPUs...), Version(), f.Command}, f.without("resume", "q", "workers", "cpus", "o")...))
		j, err := journal.Open(path, string(by), resume)
		if err != nil {
			return BadUsage("%s: measurements are kept in a file beside it: %w", output, err)
		}
		if n := j.Found(); n > 0 {
			fmt.Fprintf(o.Notes(std), "bbprof: continuing with %s in %s\n", words.Plural(n, "measurement"), path)
		}
		std.Kept = j
		err = run(std)
		if err == nil || errors.Is(err, ErrRejected) || j.Size() == 0 {
			return errors.Join(err, j.Remove())
		}
		j.Close()
		fmt.Fprintf(std.Err, "bbprof: %s are kept in %s; to go on: %s\n", words.Plural(j.Size(), "measurement"), path, ResumeCommand(os.Args[0], f))
		return err
	}
}

// ResumeCommand is the command line that continues this one.
func ResumeCommand(program string, f *Flags) string {
	command := append(strings.Fields(f.Command)[1:], "-resume")
	list := []string{Quoted(program)}
	for _, word := range append(command, f.without("resume", "overwrite")...) {
		list = append(list, Quoted(word))
	}
	return strings.Join(list, " ")
}

func Quoted(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=,:+%@", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
