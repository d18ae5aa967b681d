package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// TestHelp: every command stands below a heading, and tells of itself and of each of its flags within a terminal's width
// and in a few dozen lines; the pages that it names are there, and docs/reference.md has its exit codes. Only the help of
// bbprof itself also has all flags of measuring.
func TestHelp(t *testing.T) {
	if lines := strings.Count(bbprof().Overview(), "\n"); lines > 55 {
		t.Errorf("bbprof without arguments prints %d lines", lines)
	}
	docs := pages(t)
	const most, mostAbout = 80, 14
	for _, c := range bbprof().All() {
		help := bbprof().Help(c)
		if about, all := strings.Count(c.About, "\n"), strings.Count(help, "\n"); c.Name != "" && (about > mostAbout || all > most) {
			t.Errorf("bbprof %s -h has %d lines, %d of them to say what it does, more than %d or %d: move some to docs", c.Name, all, about, most, mostAbout)
		}
		if c.Name != "" && !slices.Contains(bbprof().Names(), c.Name) {
			t.Errorf("%s stands below no heading of main.go", c.Name)
		}
		for _, page := range regexp.MustCompile(`docs/[a-z-]+\.md`).FindAllString(help, -1) {
			if docs[filepath.Join("../..", page)] == "" {
				t.Errorf("bbprof %s -h names %s, which is not there", c.Name, page)
			}
		}
		for line := range strings.Lines(help) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > cli.HelpWidth {
				t.Errorf("%s: this line of its help is wider than %d columns: %s", c.Full(), cli.HelpWidth, line)
			}
		}
		if c.Name != "" && (c.Summary == "" || !strings.HasPrefix(c.Synopsis[0], c.Name)) {
			t.Errorf("%s: summary %q, synopsis %q", c.Full(), c.Summary, c.Synopsis)
		}
		for code := range c.Exits {
			if c.ExitHelp(code) == "" {
				t.Errorf("%s: exit code %d has no meaning", c.Full(), code)
			}
			if !strings.Contains(docs["../../docs/reference.md"], fmt.Sprintf("\n| %d |", code)) {
				t.Errorf("docs/reference.md does not explain exit code %d of bbprof %s", code, c.Name)
			}
		}
		seen := map[string]bool{}
		for _, d := range c.Declared().Decls {
			if seen[d.Name] {
				t.Errorf("%s: -%s is declared twice", c.Full(), d.Name)
			}
			seen[d.Name] = true
			if d.Help == "" {
				t.Errorf("%s: -%s has no help", c.Full(), d.Name)
			}
			if strings.Contains(d.Help, "default") && d.Fallback != "" {
				t.Errorf("%s: -%s has two defaults: %s", c.Full(), d.Name, d.Described())
			}
			for _, name := range d.Choices {
				if d.Arg != "" && !strings.Contains(d.Described(), name) {
					t.Errorf("%s: the help of -%s does not tell of %s: %s", c.Full(), d.Name, name, d.Help)
				}
			}
		}
	}
}

// TestFlagsMeanOneThing: the same name takes the same kind of value in all commands, and noise is retried as often in all.
func TestFlagsMeanOneThing(t *testing.T) {
	// Sides of a comparison, and sets of arguments; score's page, and hunt's folder of a page for each class.
	apart := []string{"a", "b", "report"}
	args := map[string]*cli.Flag{}
	for _, c := range bbprof().All() {
		for _, d := range c.Declared().Decls {
			if slices.Contains(apart, d.Name) {
				continue
			}
			if first := args[d.Name]; first != nil && first.Arg != d.Arg {
				t.Errorf("%s: -%s takes %q, elsewhere %q", c.Full(), d.Name, d.Arg, first.Arg)
			}
			if first := args[d.Name]; first != nil && d.Name == "retries" && first.Fallback != d.Fallback {
				t.Errorf("%s: -retries is %s by default, elsewhere %s", c.Full(), d.Fallback, first.Fallback)
			}
			args[d.Name] = d
		}
	}
}
