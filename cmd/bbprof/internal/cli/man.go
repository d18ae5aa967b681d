package cli

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

func (a *App) manPage() string {
	var w manWriter
	w.line(".TH BBPROF 1 \"\" \"bbprof %s\"", roff(Version()))
	w.line(".SH NAME")
	w.line("bbprof \\- %s", roff(a.Purpose))
	w.line(".SH SYNOPSIS")
	w.line(".nf")
	for _, c := range a.All() {
		for _, s := range c.Synopsis {
			w.line("%s", roff("bbprof "+s))
		}
	}
	w.line(".fi")
	w.line(".SH DESCRIPTION")
	main := a.Main
	w.text(main.About)
	w.flags(main, a.Topic)
	w.line(".SH %s", strings.ToUpper(a.Topic.Name))
	w.text(a.Topic.About)
	w.declared(a.topicFlags())
	w.line(".SH COMMANDS")
	for _, c := range a.All()[1:] {
		w.line(".SS %s", roff(c.Full()))
		w.text(strings.ToUpper(c.Summary[:1]) + c.Summary[1:] + ".\n\n" + c.About)
		w.flags(c, a.Topic)
		w.text(c.Notes)
		w.examples(c)
	}
	w.examples(main)
	w.line(".SH EXIT STATUS")
	w.text("Of bbprof -hex; those of a command are in its help.\n")
	for _, code := range slices.Sorted(maps.Keys(main.Exits)) {
		w.line(".TP\n%d\n%s", code, roff(main.ExitHelp(code)))
	}
	return onceBetween.ReplaceAllString(w.String(), "$1")
}

// onceBetween matches .PP macros without text before the next macro.
var onceBetween = regexp.MustCompile(`(?m)(?:^\.PP\n)+(^\.(?:PP|S[HS].*)\n)`)

type manWriter struct{ strings.Builder }

func (w *manWriter) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// text writes paragraphs; indented lines are kept as they are.
func (w *manWriter) text(text string) {
	asIs := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != asIs {
			asIs = indented
			w.line("%s", map[bool]string{true: ".nf", false: ".fi"}[asIs])
		}
		if line == "" {
			w.line(".PP")
		} else {
			w.line("%s", roff(line))
		}
	}
	if asIs {
		w.line(".fi")
	}
}

func (w *manWriter) flags(c *Command, elsewhere Topic) {
	f := c.Declared()
	for i, title := range f.groups {
		switch list := f.listed(i); {
		case len(list) == 0:
		case title == elsewhere.Title:
			w.line(".PP\nand the flags of %s.", strings.ToUpper(elsewhere.Name))
		default:
			w.line(".PP\n%s:", roff(title))
			w.declared(list)
		}
	}
}

func (w *manWriter) declared(list []*Flag) {
	for _, d := range list {
		w.line(".TP\n%s\n%s", roff(strings.TrimSpace("-"+d.Name+" "+d.Arg)), roff(d.Described()))
	}
}

func (w *manWriter) examples(c *Command) {
	if c.Examples != "" {
		w.line(".PP\nExamples:\n.nf\n%s.fi", roff(c.Examples))
	}
}

// roff escapes what the typesetter would take for a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	var w strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			w.WriteString(`\&`)
		}
		w.WriteString(line)
	}
	return w.String()
}
