package cli

import (
	"fmt"
	"strings"
)

// manPage is the help of all commands, in the language of man(7).
func (a *App) manPage() string {
	var w strings.Builder
	fmt.Fprintf(&w, ".TH BBPROF 1 \"\" \"bbprof %s\"\n.SH NAME\nbbprof \\- %s\n", roff(Version()), roff(a.Purpose))
	section := func(macro, title, help string) {
		fmt.Fprintf(&w, "%s %s\n.nf\n%s.fi\n", macro, roff(title), roff(help))
	}
	section(".SH", "DESCRIPTION", a.Help(a.Main))
	section(".SH", strings.ToUpper(a.Topic.Name), a.topicHelp())
	w.WriteString(".SH COMMANDS\n")
	for _, c := range a.All()[1:] {
		section(".SS", c.Full(), a.Help(c))
	}
	return w.String()
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
