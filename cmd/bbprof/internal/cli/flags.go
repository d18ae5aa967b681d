package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

type Flag struct {
	Name    string
	Arg     string // help's name for the value; "" for a switch
	Help    string // without the default, which is in Fallback
	Choices []string
	Set     func(string) error

	Fallback string // the default; "" if it is not constant
	group    int
	Writes   bool // it names an output file
}

// Flags holds the flags of one run of a command, in the order of help.
type Flags struct {
	Command string // as the user writes it, such as "bbprof batch"
	Decls   []*Flag
	groups  []string // titles
	topic   int      // the group that help only refers to; -1: no group
	line    []part   // the command line
	written []writtenFile
	read    []string // operands, words of programs, and values that may name a file

	Operands *[]string // where operands go; nil: none allowed
	choices  []string  // completions for operands; empty: files
	Stray    string    // advice about an operand that is not allowed
	Program  *[]string // where the words after -- go; nil: operands
	CPUs     *[]int    // where those go that are measured on
}

// A part is a flag on the command line with its words, or a word that is none and has no name.
type part struct {
	name  string
	words []string
}

type writtenFile struct{ flag, name string }

func NewFlags(command string) *Flags {
	return &Flags{Command: command, groups: []string{"Flags"}, topic: -1, Stray: "this command takes flags alone", CPUs: new([]int)}
}

func (f *Flags) Declare(d Flag) *Flag {
	d.group = len(f.groups) - 1
	f.Decls = append(f.Decls, &d)
	return &d
}

func (f *Flags) Section(title string) {
	if len(f.Decls) == 0 {
		f.groups = nil
	}
	f.groups = append(f.groups, title)
}

func (f *Flags) OnTopic(title string) {
	f.Section(title)
	f.topic = len(f.groups) - 1
}

func (f *Flags) InFull() { f.topic = -1 }

func (f *Flags) Toggle(p *bool, name, help string) { f.toggle(p, true, name, help) }

// Off declares a switch that is on by default; switching it off sets p.
func (f *Flags) Off(p *bool, name, help string) {
	f.toggle(p, false, name, help).Choices = []string{"true", "false"}
}

func (f *Flags) toggle(p *bool, when bool, name, help string) *Flag {
	return Parsed(f, p, func(s string) (bool, error) {
		on, err := strconv.ParseBool(s)
		if err != nil {
			return false, errors.New("write true or false")
		}
		return on == when, nil
	}, name, "", help)
}

func (f *Flags) Text(p *string, name, arg, help string) {
	Parsed(f, p, func(s string) (string, error) { return s, nil }, name, arg, help).Fallback = *p
}

func (f *Flags) List(p *[]string, name, arg, help string) {
	Parsed(f, p, func(s string) ([]string, error) { return append(*p, s), nil }, name, arg, help)
}

// Number declares a flag with an integer value of at least least.
func (f *Flags) Number(p *int, least int, name, help string) *Flag {
	return f.number(p, least, math.MaxInt, name, help)
}

// MostRepeated bounds draws and repetitions: this many draws fit in memory, and measuring them takes weeks.
const MostRepeated = 1_000_000

// Repeats is Number for a count of measurements or variants.
func (f *Flags) Repeats(p *int, least int, name, help string) *Flag {
	return f.number(p, least, MostRepeated, name, help)
}

func (f *Flags) number(p *int, least, most int, name, help string) *Flag {
	d := Parsed(f, p, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err == nil && n > most {
			return 0, fmt.Errorf("write a whole number up to %d", most)
		}
		return WholeNumber(s, least, most, "write a whole number from %d on", least)
	}, name, "N", help)
	d.Fallback = strconv.Itoa(*p)
	return d
}

func (f *Flags) Seed(p *uint64, help string) {
	Parsed(f, p, func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, errors.New("write a whole number from 0 on")
		}
		return n, nil
	}, "seed", "N", help).Fallback = strconv.FormatUint(*p, 10)
}

// Parsed declares a flag whose value parse reads.
func Parsed[T any](f *Flags, p *T, parse func(string) (T, error), name, arg, help string) *Flag {
	return f.Declare(Flag{Name: name, Arg: arg, Help: help, Set: func(s string) error {
		v, err := parse(s)
		if err == nil {
			*p = v
		}
		return err
	}})
}

func Choice[T ~string](f *Flags, p *T, names []T, name, arg, help string) *Flag {
	d := Parsed(f, p, func(s string) (T, error) { return parseName(s, names) }, name, arg, help)
	for _, n := range names {
		d.Choices = append(d.Choices, string(n))
	}
	return d
}

func (f *Flags) Lookup(name string) *Flag {
	for _, d := range f.Decls {
		if d.Name == name {
			return d
		}
	}
	return nil
}

func (f *Flags) Has(name string) bool {
	return slices.ContainsFunc(f.line, func(p part) bool { return p.name == name })
}

// Of returns the first flag given that belongs to a group, except those in but; "" if there is none.
func (f *Flags) Of(title string, but ...string) string {
	for _, p := range f.line {
		if p.name != "" && f.groups[f.Lookup(p.name).group] == title && !slices.Contains(but, p.name) {
			return p.name
		}
	}
	return ""
}

func (f *Flags) In(title string) (names []string) {
	for _, d := range f.listed(slices.Index(f.groups, title)) {
		names = append(names, d.Name)
	}
	return names
}

var errHelp = errors.New("help")

// Parse reads a command line in Go's style: -name value, -name=value, or -name for a switch, with one or two dashes,
// before or after operands. A switch may be followed by true or false.
func (f *Flags) Parse(args []string) error {
	for len(args) > 0 {
		rest, word := args, args[0]
		args = args[1:]
		if word == "--" {
			f.line = append(f.line, part{"", rest})
			return f.afterDashes(args)
		}
		if len(word) < 2 || word[0] != '-' {
			f.line = append(f.line, part{"", rest[:1]})
			if err := f.operand(word); err != nil {
				return err
			}
			continue
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		d := f.Lookup(name)
		switch {
		case d == nil && (name == "h" || name == "help"):
			return errHelp
		case d == nil:
			return fmt.Errorf("unknown flag -%s%s (%s -h lists the flags)", name, f.meant(name), f.Command)
		case joined:
		case d.Arg == "" && len(args) > 0 && (args[0] == "true" || args[0] == "false"):
			value, args = args[0], args[1:]
		case d.Arg == "":
			value = "true"
		case len(args) == 0:
			return fmt.Errorf("-%s needs a value: -%s %s (%s -h tells more)", name, name, d.Arg, f.Command)
		default:
			value, args = args[0], args[1:]
		}
		if err := d.Set(value); err != nil {
			return fmt.Errorf("invalid value %q for flag -%s: %w", value, name, err)
		}
		f.line = append(f.line, part{name, rest[:len(rest)-len(args)]})
		switch {
		case d.Writes:
			f.written = append(f.written, writtenFile{d.Name, value})
		case d.reads():
			f.read = append(f.read, value)
		}
	}
	return nil
}

// without returns the command line without the named flags.
func (f *Flags) without(names ...string) (words []string) {
	for _, p := range f.line {
		if !slices.Contains(names, p.name) {
			words = append(words, p.words...)
		}
	}
	return words
}

func (f *Flags) operand(word string) error {
	if f.Operands == nil {
		return fmt.Errorf("unexpected argument %q: %s", word, f.Stray)
	}
	*f.Operands = append(*f.Operands, word)
	f.read = append(f.read, word)
	return nil
}

func (f *Flags) afterDashes(words []string) (err error) {
	if f.Program != nil {
		*f.Program, f.read = words, append(f.read, words...)
		return nil
	}
	for i := 0; i < len(words) && err == nil; i++ {
		err = f.operand(words[i])
	}
	return err
}

// reads reports whether the value may name a file, or a program as compare's sides do.
func (d *Flag) reads() bool {
	return strings.Contains(d.Arg, "FILE") || slices.Contains([]string{"[NAME=]SOURCE", "CORPUS", "A", "B"}, d.Arg)
}

// keepsInputs rejects an output that would overwrite an input file or the running program.
func (f *Flags) keepsInputs() error {
	for _, w := range f.written {
		info, err := os.Stat(w.name)
		if err != nil || !info.Mode().IsRegular() { // such as /dev/null
			continue
		}
		for _, text := range f.read {
			if slices.ContainsFunc(filesIn(text), func(name string) bool { return sameFile(info, name) }) {
				return fmt.Errorf("-%s %s is the input itself; name another file", w.flag, w.name)
			}
		}
	}
	return nil
}

// filesIn lists the files that a word may name: itself, those of NAME=FILE,scale=0.01 and FILE#N, all of FILES, and a
// command's program.
func filesIn(text string) []string {
	if text == "-" {
		return nil
	}
	_, model, _ := strings.Cut(text, "=")
	model, _, _ = strings.Cut(model, ",")
	plain, _, _ := strings.Cut(text, ",")
	one, _, _ := strings.Cut(text, "#")
	names := []string{text, model, plain, one}
	if words := strings.Fields(text); len(words) > 0 {
		program, _ := exec.LookPath(words[0])
		names = append(append(names, words...), program)
	}
	return names
}

func (f *Flags) names() (names []string) {
	for _, d := range f.Decls {
		names = append(names, d.Name)
	}
	return names
}

var longNames = map[string]string{"out": "o", "output": "o", "quiet": "q", "silent": "q", "verbose": "v"}

func (f *Flags) meant(name string) string {
	if short := longNames[name]; f.Lookup(short) != nil {
		name = short
	}
	return didYouMean("-", name, f.names())
}

// didYouMean suggests the nearest name, "" if none is near.
func didYouMean(prefix, name string, names []string) string {
	const near = 2 // edits: two swapped letters, or a wrong or missing letter plus an extra one
	best, least := "", near+1
	for _, n := range names {
		if d := words.Distance(name, n); d < least && d < len(n) {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

func parseName[T ~string](s string, names []T) (T, error) {
	if i := slices.Index(names, T(s)); i >= 0 {
		return names[i], nil
	}
	var list []string
	for _, n := range names {
		list = append(list, string(n))
	}
	return "", fmt.Errorf("write %s", words.List(list, "or"))
}

// ParseShare reads a fraction such as 0.005, or a percentage such as 0.5%.
func ParseShare(s string) (float64, error) {
	v, err := ParseShareOrMore(s)
	if err == nil && v > 1 && !strings.Contains(s, "%") { // probably meant as a percentage
		return 0, fmt.Errorf("write %s%% for percent; a fraction is at most 1", strings.TrimSpace(s))
	}
	return v, err
}

// ParseShareOrMore reads a non-negative number or a percentage.
func ParseShareOrMore(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < math.Inf(1)) {
		return 0, errors.New("write a fraction such as 0.05, or 5%")
	}
	return v, nil
}

func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("write a time above 0 with its unit, such as 500ms, 30s or 5m")
	}
	return d, nil
}

func ListOf[T any](s string, parse func(string) (T, error)) (list []T, err error) {
	for _, one := range strings.Split(s, ",") {
		v, err := parse(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func ParseAddress(s string) (uint64, error) {
	at, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, errors.New("write an address such as 0x401136")
	}
	return at, nil
}

// WholeNumber reads a number from least to most; advice is the error's text.
func WholeNumber(s string, least, most int, advice string, args ...any) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf(advice, args...)
	}
	return n, nil
}

func HowMany(operands []string) string {
	if len(operands) == 0 {
		return "none is named"
	}
	return "these are " + strconv.Itoa(len(operands))
}
