package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	helpWidth  = 100 // columns of a help text
	flagIndent = 18  // where the text of a flag begins
)

// start is how help begins: what the command does and how it is called.
func (a *app) start(w *strings.Builder, c *command) {
	if c.name == "" {
		w.WriteString(c.about)
	} else {
		fmt.Fprintf(w, "%s: %s.\n", c.full(), c.summary)
	}
	w.WriteString("\n")
	for _, s := range c.synopsis {
		fmt.Fprintf(w, "  bbprof %s\n", s)
	}
	if c.name == "" {
		a.writeCommands(w)
	} else if c.about != "" {
		w.WriteString("\n" + c.about)
	}
}

// overview is for who names neither a block nor a command.
func (a *app) overview() string {
	var w strings.Builder
	a.start(&w, a.main)
	w.WriteString("\nExamples:\n" + indent(a.main.examples) + "\nbbprof -h tells of the flags too, bbprof COMMAND -h of one command.\n")
	return w.String()
}

func (a *app) help(c *command) string {
	var w strings.Builder
	a.start(&w, c)
	w.WriteString(a.flagHelp(c))
	if c.notes != "" {
		w.WriteString("\n" + c.notes)
	}
	if c.examples != "" {
		w.WriteString("\nExamples:\n" + indent(c.examples))
	}
	w.WriteString("\nExit codes:\n")
	for _, code := range slices.Sorted(maps.Keys(c.exits)) {
		fmt.Fprintf(&w, "  %-4d %s\n", code, c.exitHelp(code))
	}
	if c.name == "" {
		w.WriteString("\nResults go to standard output, everything else to standard error.\n")
	}
	return w.String()
}

func (c *command) exitHelp(code int) string {
	if text := c.exits[code]; text != "" {
		return text
	}
	return commonExits[code]
}

func (c *command) declared() *flags {
	f := newFlags(c.full())
	c.setup(f)
	return f
}

// flagHelp lists the command's own flags, and points to those of the topic.
func (a *app) flagHelp(c *command) string {
	f := c.declared()
	var w strings.Builder
	for i, title := range f.groups {
		list := f.listed(i)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(&w, "\n%s:\n", title)
		if i == f.topic {
			w.WriteString("  " + wrap(a.topic.pointer, 2) + "\n")
			continue
		}
		for _, d := range list {
			w.WriteString(d.text())
		}
	}
	return w.String()
}

// listed are the flags of a group that help shows.
func (f *flags) listed(group int) (list []*flagDecl) {
	for _, d := range f.decls {
		if d.group == group && !d.hidden {
			list = append(list, d)
		}
	}
	return list
}

func (d *flagDecl) text() string {
	head := strings.TrimRight("  -"+d.name+" "+d.arg, " ")
	body := wrap(d.described(), flagIndent)
	if len(head) >= flagIndent {
		return head + "\n" + strings.Repeat(" ", flagIndent) + body + "\n"
	}
	return fmt.Sprintf("%-*s%s\n", flagIndent, head, body)
}

func (d *flagDecl) described() string {
	if d.fallback == "" {
		return d.help
	}
	return d.help + " (default: " + d.fallback + ")"
}

// wrap breaks text into lines; all but the first are indented by at columns.
func wrap(text string, at int) string {
	var w strings.Builder
	column := at
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > helpWidth:
			w.WriteString("\n" + strings.Repeat(" ", at))
			column = at
		default:
			w.WriteByte(' ')
			column++
		}
		w.WriteString(word)
		column += len(word)
	}
	return w.String()
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func (a *app) writeCommands(w *strings.Builder) {
	for _, h := range a.headings {
		fmt.Fprintf(w, "\n%s:\n", h.title)
		for _, c := range a.under(h) {
			fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
		}
	}
}

func (a *app) helpCommand() *command {
	return &command{
		name:     "help",
		summary:  "print the help of a command, or on " + a.topic.name + ", or the man page",
		synopsis: []string{"help", "help COMMAND", fmt.Sprintf("help %s  (%s)", a.topic.name, a.topic.summary), "help -man       (all of it as a man page)"},
		exits:    map[int]string{exitOK: "done", exitUsage: ""},
		setup: func(f *flags) func(streams) error {
			var (
				words []string
				man   bool
			)
			f.operands = &words
			f.choices = []string{a.topic.name}
			f.toggle(&man, "man", "print the man page, in the language of man(7)")
			return func(std streams) error {
				if man {
					return writeText(std, a.manPage())
				}
				return a.helpOn(words, std)
			}
		},
	}
}

func (a *app) helpOn(words []string, std streams) error {
	switch {
	case len(words) == 0:
		return writeText(std, a.help(a.main))
	case len(words) == 1 && words[0] == a.topic.name:
		return writeText(std, a.topicHelp())
	case len(words) == 1 && a.find(words[0]) != nil:
		return writeText(std, a.help(a.find(words[0])))
	}
	topics := append(a.names(), a.topic.name)
	return badUsage("no help on %s%s (bbprof -h lists the commands; %s is another topic, and -man prints the man page)", strings.Join(words, " "), didYouMean("", words[0], topics), a.topic.name)
}

func (a *app) topicFlags() []*flagDecl {
	f := newFlags("bbprof")
	a.topic.declare(f)
	return f.listed(f.topic)
}

func (a *app) topicHelp() string {
	var w strings.Builder
	w.WriteString(a.topic.about + "\n")
	for _, d := range a.topicFlags() {
		w.WriteString(d.text())
	}
	return w.String()
}
