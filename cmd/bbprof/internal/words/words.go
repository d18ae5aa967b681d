// Package words helps to phrase answers to users: the name nearest to a misspelled one, errors in files or programs
// that they named, and plurals.
package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Distance returns the number of insertions, deletions and replacements that turn a into b (Levenshtein).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Plural returns a phrase such as 1 block, 2 blocks, 3 copies or 4 processes.
func Plural[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, found := strings.CutSuffix(thing, "y"); found {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	if strings.HasSuffix(thing, "s") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// List is such as a, b and c; last is the word before the last.
func List(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// Cut is a text of at most so many bytes; an ellipsis stands for the rest.
func Cut(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Wrap breaks a text at spaces into lines, each as long as it fits; a word that does not stays whole.
func Wrap(text string, fits func(line string) bool) (lines []string) {
	current := ""
	for word := range strings.FieldsSeq(text) {
		if longer := strings.TrimSpace(current + " " + word); current == "" || fits(longer) {
			current = longer
			continue
		}
		lines, current = append(lines, current), word
	}
	return append(lines, current)
}

func ByCount[K cmp.Ordered, N int | int64](n map[K]N) []K {
	return slices.SortedFunc(maps.Keys(n), func(a, b K) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
}

// Frequent is ByCount with the counts.
func Frequent[K cmp.Ordered](n map[K]int) (list []string) {
	for _, k := range ByCount(n) {
		list = append(list, fmt.Sprintf("%v %d", k, n[k]))
	}
	return list
}

// Error is an error in a program or file that the user named, not in bbprof or the host.
type Error struct {
	Subject string // the program or file
	Problem string // in one clause
	Remedy  string
	Err     error // the system's error
}

func (e *Error) Error() string {
	s := e.Subject + ": " + e.Problem
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
