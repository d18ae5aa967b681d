package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestApp checks exit code and message of a program with one command.
func TestApp(t *testing.T) {
	broken := errors.New("it broke")
	app := App{
		Main:     &Command{Setup: func(f *Flags) func(Streams) error { return nil }},
		Headings: []Heading{{Title: "All", Names: "echo help"}},
		Topic:    Topic{Name: "topic"},
		Unknown: func(words []string) string {
			if words[0] == "print" {
				return "write echo"
			}
			return ""
		},
		Explain: func(err error) (int, error) {
			if usage := (*UsageError)(nil); errors.As(err, &usage) {
				return ExitUsage, err
			}
			return ExitInternal, fmt.Errorf("explained: %w", err)
		},
		Commands: []*Command{{Name: "echo", Summary: "say it", Synopsis: []string{"echo WORD..."}, Setup: func(f *Flags) func(Streams) error {
			var words []string
			f.Operands = &words
			return func(std Streams) error {
				switch strings.Join(words, " ") {
				case "fail":
					return broken
				case "reject":
					return ErrRejected
				}
				return WriteText(std, strings.Join(words, " ")+"\n")
			}
		}}},
	}
	for _, c := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"echo a b", "a b\n", "", ExitOK},
		{"echo reject", "", "", ExitRejected},
		{"echo fail", "", "bbprof: explained: it broke\n", ExitInternal},
		{"echo -x", "", "bbprof: echo: unknown flag -x (bbprof echo -h lists the flags)\n", ExitUsage},
		{"ecoh", "", "bbprof: unknown command \"ecoh\"; did you mean echo? (bbprof -h lists the commands)\n", ExitUsage},
		{"print a", "", "bbprof: unknown command \"print\": write echo\n", ExitUsage},
		{"echo -h", "bbprof echo: say it.\n\n  bbprof echo WORD...\n\nExit codes:\n", "", ExitOK},
		{"help echo", "bbprof echo: say it.\n\n  bbprof echo WORD...\n\nExit codes:\n", "", ExitOK},
	} {
		var stdout, stderr strings.Builder
		code := app.Run(strings.Fields(c.args), nil, &stdout, &stderr)
		if code != c.code || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: exit code %d, prints %q, says %q; want %d, %q, %q", c.args, code, stdout.String(), stderr.String(), c.code, c.stdout, c.stderr)
		}
	}
}
