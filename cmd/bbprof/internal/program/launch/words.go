package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"
)

// Words splits a command line like a shell, at spaces and with quotes, and rejects what only a shell can do.
func Words(line string) ([]string, error) {
	var parser shellwords.Parser
	words, err := parser.Parse(line)
	if err != nil {
		return nil, fmt.Errorf("%q: a quote or a parenthesis is not closed", line)
	}
	if at := parser.Position; at >= 0 {
		return nil, fmt.Errorf("%q: no shell is run to interpret %q; quote it, or run sh -c '…'", line, []rune(line)[at])
	}
	return words, nil
}

const placeholder = "{}"

// HasPlace reports whether Fill replaces something.
func HasPlace(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, placeholder) })
}

// Fill replaces {} by a set of arguments: by all its words where {} is a word, by its text within a longer word.
// Without {} the words are appended.
func Fill(words []string, set string) ([]string, error) {
	args, err := Words(set)
	if err != nil {
		return nil, err
	}
	var filled []string
	for _, w := range words {
		if w == placeholder {
			filled = append(filled, args...)
		} else {
			filled = append(filled, strings.ReplaceAll(w, placeholder, set))
		}
	}
	if !HasPlace(words) {
		filled = append(filled, args...)
	}
	return filled, nil
}
