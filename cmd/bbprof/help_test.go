package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelp: every command tells of itself, and of each of its flags, within a terminal's width.
func TestHelp(t *testing.T) {
	for _, c := range bbprof().all() {
		help := bbprof().help(c)
		for line := range strings.Lines(help) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > helpWidth {
				t.Errorf("%s: this line of its help is wider than %d columns: %s", c.full(), helpWidth, line)
			}
		}
		if c.name != "" && (c.summary == "" || !strings.HasPrefix(c.synopsis[0], c.name)) {
			t.Errorf("%s: summary %q, synopsis %q", c.full(), c.summary, c.synopsis)
		}
		for code := range c.exits {
			if c.exitHelp(code) == "" {
				t.Errorf("%s: exit code %d has no meaning", c.full(), code)
			}
		}
		seen := map[string]bool{}
		for _, d := range c.declared().decls {
			if seen[d.name] {
				t.Errorf("%s: -%s is declared twice", c.full(), d.name)
			}
			seen[d.name] = true
			if d.help == "" {
				t.Errorf("%s: -%s has no help", c.full(), d.name)
			}
			if strings.Contains(d.help, "default") && d.fallback != "" {
				t.Errorf("%s: -%s has two defaults: %s", c.full(), d.name, d.described())
			}
			for _, name := range d.choices {
				if d.arg != "" && !strings.Contains(d.described(), name) {
					t.Errorf("%s: the help of -%s does not tell of %s: %s", c.full(), d.name, name, d.help)
				}
			}
		}
	}
}

// TestFlagsMeanOneThing: the same name takes the same kind of value in all commands.
func TestFlagsMeanOneThing(t *testing.T) {
	// Sides of a comparison, and sets of arguments; a block in assembly, and extract's column of it; score's
	// page, and hunt's folder of a page for each class.
	apart := []string{"a", "b", "asm", "report"}
	args := map[string]*flagDecl{}
	for _, c := range bbprof().all() {
		for _, d := range c.declared().decls {
			if slices.Contains(apart, d.name) {
				continue
			}
			if first := args[d.name]; first != nil && first.arg != d.arg {
				t.Errorf("%s: -%s takes %q, elsewhere %q", c.full(), d.name, d.arg, first.arg)
			}
			args[d.name] = d
		}
	}
}

// TestHelpIsShort: help says in a dozen lines what a command does, and has its flags; what needs more stands in docs.
// Only that of bbprof itself also has all flags of measuring.
func TestHelpIsShort(t *testing.T) {
	const most, mostAbout = 80, 14
	for _, c := range bbprof().all()[1:] {
		if lines := strings.Count(c.about, "\n"); lines > mostAbout {
			t.Errorf("bbprof %s -h takes %d lines to say what it does, more than %d: move some to docs", c.name, lines, mostAbout)
		}
		if lines := strings.Count(bbprof().help(c), "\n"); lines > most {
			t.Errorf("bbprof %s -h has %d lines, more than %d: move some to docs", c.name, lines, most)
		}
	}
	if lines := strings.Count(bbprof().overview(), "\n"); lines > 55 {
		t.Errorf("bbprof without arguments prints %d lines", lines)
	}
}
