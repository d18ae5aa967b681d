package cli

import (
	"fmt"
	"slices"
	"strings"
)

// completionCommand prints a shell's completion script. The scripts ask bbprof itself for candidates, so they offer
// exactly what is declared.
func (a *App) completionCommand() *Command {
	return &Command{
		Name:     "completion",
		Summary:  "print a script that completes command lines in bash, zsh or fish",
		Synopsis: []string{"completion bash|zsh|fish"},
		About: `To use it in every shell that is started from now on, add one of these lines
  to ~/.bashrc                  source <(bbprof completion bash)
  to ~/.zshrc, after compinit   source <(bbprof completion zsh)
  to ~/.config/fish/config.fish bbprof completion fish | source
`,
		Exits: map[int]string{ExitOK: "done", ExitUsage: ""},
		Setup: func(f *Flags) func(Streams) error {
			var words []string
			f.Operands, f.choices = &words, shells
			f.Program = new([]string)
			return func(std Streams) error { return a.complete(words, *f.Program, std) }
		},
	}
}

var shells = []string{"bash", "zsh", "fish"}

// Each script calls bbprof completion words -- WORDS, where the last word is the one to complete, and falls back to
// file names.
var completionScripts = map[string]string{
	"bash": `_bbprof() {
	local IFS=$'\n'
	COMPREPLY=($("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _bbprof bbprof
`,
	"zsh": `#compdef bbprof
_bbprof() {
	local -a offers
	offers=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	offers=("${(@)offers:#}")
	if (( $#offers )); then
		offers=("${(@)offers//$'\t'/:}")
		_describe bbprof offers
	else
		_files
	fi
}
compdef _bbprof bbprof
`,
	"fish": `function __bbprof_offers
	set -l words (commandline -opc)
	set -l last (commandline -ct)
	$words[1] completion words -- $words[2..-1] "$last" 2>/dev/null
end
complete -c bbprof -f -n 'string length -q -- (__bbprof_offers)' -a '(__bbprof_offers)'
`,
}

func (a *App) complete(operands, words []string, std Streams) error {
	switch {
	case len(operands) == 1 && completionScripts[operands[0]] != "":
		return WriteText(std, completionScripts[operands[0]])
	case len(operands) == 1 && operands[0] == "words" && len(words) > 0:
		return WriteText(std, a.offers(words))
	}
	return BadUsage("name one shell: %s", strings.Join(shells, ", "))
}

// offers lists completions of the last word, one per line: name, tab, meaning.
func (a *App) offers(words []string) string {
	last := words[len(words)-1]
	c := a.Main
	if !strings.HasPrefix(words[0], "-") {
		if len(words) == 1 {
			return offered(last, "", a.Names(), func(name string) string { return a.find(name).Summary })
		}
		if c, words = a.find(words[0]), words[1:]; c == nil {
			return ""
		}
	}
	f := c.Declared()
	if d := f.valueOf(words); d != nil {
		return offered(last, "", d.Choices, func(string) string { return "" })
	}
	if strings.HasPrefix(last, "-") {
		return offered(strings.TrimLeft(last, "-"), "-", f.names(), func(name string) string { return f.Lookup(name).Help })
	}
	return offered(last, "", f.choices, func(string) string { return "" })
}

func (f *Flags) valueOf(words []string) *Flag {
	for i := 0; i < len(words)-1; i++ {
		if words[i] == "--" {
			return nil
		}
		d := f.Lookup(strings.TrimLeft(words[i], "-"))
		if !strings.HasPrefix(words[i], "-") || d == nil || d.Arg == "" {
			continue
		}
		if i++; i == len(words)-1 {
			return d
		}
	}
	return nil
}

func offered(word, prefix string, names []string, text func(string) string) string {
	var w strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		if strings.HasPrefix(name, word) {
			first, _, _ := strings.Cut(text(name), ";")
			fmt.Fprintf(&w, "%s%s\t%s\n", prefix, name, strings.ReplaceAll(first, ":", ","))
		}
	}
	return w.String()
}
