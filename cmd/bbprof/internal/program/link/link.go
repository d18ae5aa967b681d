// Package link links a program many times with its code and data in different places.
//
// Placement by the linker changes a program's speed by more than many code changes do (Mytkowicz et al., Producing
// Wrong Data Without Doing Anything Obviously Wrong!, ASPLOS 2009). A [Recipe] is a command line with placeholders; a
// [Variant] holds their values for one link. A [Linker] runs the command lines and keeps the programs until it is
// closed.
package link

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
)

const (
	seedHere    = "{seed}"
	outHere     = "{out}"
	objectsHere = "{objects}"
)

type Preset string

const (
	None     Preset = ""
	Padding  Preset = "padding"  // between input sections, and at the start of each segment
	Sections Preset = "sections" // the order of input sections
	Both     Preset = "both"
)

func Presets() []Preset { return []Preset{Padding, Sections, Both} }

type Recipe struct {
	Side   string   // the flag that gave it, for messages
	Words  []string // of the command line
	Preset Preset
}

// Check says what a command line lacks. objects means that there are object files to order.
func (r Recipe) Check(objects bool) error {
	has := func(placeholder string) bool {
		return slices.ContainsFunc(r.Words, func(w string) bool { return strings.Contains(w, placeholder) })
	}
	switch {
	case len(r.Words) == 0:
		return fmt.Errorf("%s is empty: give a command line that links, such as 'gcc -o {out} main.o'", r.Side)
	case !has(outHere):
		return fmt.Errorf("%s does not say where the program goes: write {out} there, as in -o {out}", r.Side)
	case objects && !has(objectsHere):
		return fmt.Errorf("%s does not say where the object files go: write {objects} there, or dir/{objects}", r.Side)
	case !objects && has(objectsHere):
		return fmt.Errorf("%s has {objects}, and -objects does not name them", r.Side)
	case r.Preset != None && r.dropsFlags():
		return fmt.Errorf("%s: -lld adds flags to the end of the command line, which %s takes for names of its own: "+
			`pass them on, as in sh -c 'cc -o {out} main.o "$@"' sh`, r.Side, r.Words[0])
	case r.Preset == None && !objects && !has(seedHere):
		return fmt.Errorf("nothing differs between the links of %s: use -lld both, -objects, or {seed} in the command line", r.Side)
	}
	return nil
}

// Variant is one of many links. Both sides are linked in the same variants.
type Variant struct {
	Number  int    // from 1
	Seed    uint32 // value of {seed}, and lld's seed
	Order   string // of the object files: given, alphabetical or random
	Objects []string
}

// Variants draws n variants. The first keeps the object files' order, the second sorts them unless that is the same,
// all others shuffle them. Variant i of a seed does not depend on n.
func Variants(n int, seed uint64, objects []string) []Variant {
	all := make([]Variant, n)
	for i := range all {
		rng := rand.New(rand.NewPCG(seed, 1<<32+uint64(i)))
		// lld takes seed 0 to mean the clock, and the largest to mean reversal (ELF/Options.td, shuffle_sections).
		v := Variant{Number: i + 1, Seed: 1 + rng.Uint32N(1<<31-1)}
		if len(objects) > 0 {
			v.Objects = slices.Clone(objects)
			switch {
			case i == 0:
				v.Order = "given"
			case i == 1 && !slices.IsSorted(objects):
				v.Order = "alphabetical"
				slices.Sort(v.Objects)
			default:
				v.Order = "random"
				rng.Shuffle(len(objects), func(i, j int) { v.Objects[i], v.Objects[j] = v.Objects[j], v.Objects[i] })
			}
		}
		all[i] = v
	}
	return all
}

// command returns a variant's command line. lld is a directory in which lld is called ld.lld.
func (r Recipe) command(v Variant, out, lld string) []string {
	seed := strconv.FormatUint(uint64(v.Seed), 10)
	fill := strings.NewReplacer(seedHere, seed, outHere, out)
	var words []string
	for _, w := range r.Words {
		if !strings.Contains(w, objectsHere) {
			words = append(words, fill.Replace(w))
			continue
		}
		for _, o := range v.Objects {
			words = append(words, strings.ReplaceAll(fill.Replace(w), objectsHere, o))
		}
	}
	if r.Preset == None {
		return words
	}
	through := "" // prefix that passes a flag through the compiler
	if !r.isLinker() {
		through = "-Wl,"
		words = append(words, "-fuse-ld=lld", "-B"+lld)
	}
	if r.Preset != Sections {
		words = append(words, through+"--randomize-section-padding="+seed)
	}
	if r.Preset != Padding {
		for _, glob := range shuffled {
			words = append(words, through+"--shuffle-sections="+glob+"="+seed)
		}
	}
	return words
}

// shuffled lists the sections whose order is free. Others, such as .init_array, depend on it.
var shuffled = []string{".text*", ".rodata*", ".data*", ".bss*"}

func (r Recipe) isLinker() bool {
	name := filepath.Base(r.Words[0])
	return strings.HasPrefix(name, "ld") || strings.HasPrefix(name, "lld")
}

// dropsFlags reports whether the command line is a shell script that ignores its arguments, "$@" or "$*".
func (r Recipe) dropsFlags() bool {
	shell := slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh"}, filepath.Base(r.Words[0]))
	script := func(w string) bool { return strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") } // -c or -ec
	uses := func(w string) bool { return strings.Contains(w, "$@") || strings.Contains(w, "$*") }
	return shell && slices.ContainsFunc(r.Words[1:], script) && !slices.ContainsFunc(r.Words, uses)
}

func (r Recipe) problem(problem, remedy string, err error) error {
	return &launch.Error{Subject: r.Side, Problem: problem, Remedy: remedy, Err: err}
}
