package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

const (
	HelpWidth  = 100 // width of a help text
	flagIndent = 18  // column where a flag's text begins
)

func (a *App) start(w *strings.Builder, c *Command) {
	if c.Name == "" {
		w.WriteString(c.About)
	} else {
		fmt.Fprintf(w, "%s: %s.\n", c.Full(), c.Summary)
	}
	w.WriteString("\n")
	for _, s := range c.Synopsis {
		fmt.Fprintf(w, "  bbprof %s\n", s)
	}
	if c.Name == "" {
		a.writeCommands(w)
	} else if c.About != "" {
		w.WriteString("\n" + c.About)
	}
}

func (a *App) Overview() string {
	var w strings.Builder
	a.start(&w, a.Main)
	w.WriteString("\nExamples:\n" + indent(a.Main.Examples) + "\nbbprof -h tells of the flags too, bbprof COMMAND -h of one command.\n")
	return w.String()
}

func (a *App) Help(c *Command) string {
	var w strings.Builder
	a.start(&w, c)
	w.WriteString(a.flagHelp(c))
	if c.Notes != "" {
		w.WriteString("\n" + c.Notes)
	}
	if c.Examples != "" {
		w.WriteString("\nExamples:\n" + indent(c.Examples))
	}
	w.WriteString("\nExit codes:\n")
	for _, code := range slices.Sorted(maps.Keys(c.Exits)) {
		fmt.Fprintf(&w, "  %-4d %s\n", code, c.ExitHelp(code))
	}
	if c.Name == "" {
		w.WriteString("\nResults go to standard output, everything else to standard error.\n")
	}
	return w.String()
}

func (c *Command) ExitHelp(code int) string {
	if text := c.Exits[code]; text != "" {
		return text
	}
	return commonExits[code]
}

func (c *Command) Declared() *Flags {
	f := NewFlags(c.Full())
	c.Setup(f)
	return f
}

func (a *App) flagHelp(c *Command) string {
	f := c.Declared()
	var w strings.Builder
	for i, title := range f.groups {
		list := f.listed(i)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(&w, "\n%s:\n", title)
		if i == f.topic {
			w.WriteString("  " + wrap(a.Topic.Pointer, 2) + "\n")
			continue
		}
		for _, d := range list {
			w.WriteString(d.text())
		}
	}
	return w.String()
}

func (f *Flags) listed(group int) (list []*Flag) {
	for _, d := range f.Decls {
		if d.group == group {
			list = append(list, d)
		}
	}
	return list
}

func (d *Flag) text() string {
	head := strings.TrimRight("  -"+d.Name+" "+d.Arg, " ")
	body := wrap(d.Described(), flagIndent)
	if len(head) >= flagIndent {
		return head + "\n" + strings.Repeat(" ", flagIndent) + body + "\n"
	}
	return fmt.Sprintf("%-*s%s\n", flagIndent, head, body)
}

func (d *Flag) Described() string {
	if d.Fallback == "" {
		return d.Help
	}
	return d.Help + " (default: " + d.Fallback + ")"
}

// wrap breaks text into lines; all but the first are indented by at columns.
func wrap(text string, at int) string {
	lines := words.Wrap(text, func(line string) bool { return at+len(line) <= HelpWidth })
	return strings.Join(lines, "\n"+strings.Repeat(" ", at))
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func (a *App) writeCommands(w *strings.Builder) {
	for _, h := range a.Headings {
		fmt.Fprintf(w, "\n%s:\n", h.Title)
		for _, c := range a.under(h) {
			fmt.Fprintf(w, "  %-12s %s\n", c.Name, c.Summary)
		}
	}
}

func (a *App) helpCommand() *Command {
	return &Command{
		Name:     "help",
		Summary:  "print the help of a command, or on " + a.Topic.Name + ", or the man page",
		Synopsis: []string{"help", "help COMMAND", fmt.Sprintf("help %s  (%s)", a.Topic.Name, a.Topic.Summary), "help -man       (all of it as a man page)"},
		Exits:    map[int]string{ExitOK: "done", ExitUsage: ""},
		Setup: func(f *Flags) func(Streams) error {
			var words []string
			var man bool
			f.Operands, f.choices = &words, []string{a.Topic.Name}
			f.Toggle(&man, "man", "print the man page, in the language of man(7)")
			return func(std Streams) error {
				if man {
					return WriteText(std, a.manPage())
				}
				return a.helpOn(words, std)
			}
		},
	}
}

func (a *App) helpOn(words []string, std Streams) error {
	switch {
	case len(words) == 0:
		return WriteText(std, a.Help(a.Main))
	case len(words) == 1 && words[0] == a.Topic.Name:
		return WriteText(std, a.topicHelp())
	case len(words) == 1 && a.find(words[0]) != nil:
		return WriteText(std, a.Help(a.find(words[0])))
	}
	topics := append(a.Names(), a.Topic.Name)
	return BadUsage("no help on %s%s (bbprof -h lists the commands; %s is another topic, and -man prints the man page)",
		strings.Join(words, " "), didYouMean("", words[0], topics), a.Topic.Name)
}

func (a *App) topicFlags() []*Flag {
	f := NewFlags("bbprof")
	a.Topic.Declare(f)
	return f.listed(f.topic)
}

func (a *App) topicHelp() string {
	var w strings.Builder
	w.WriteString(a.Topic.About + "\n")
	for _, d := range a.topicFlags() {
		w.WriteString(d.text())
	}
	return w.String()
}
