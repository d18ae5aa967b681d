package matrix

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
)

// Build is a compiler, possibly with flags, and an optimisation level such as O2.
type Build struct {
	Compiler string `json:"compiler"`
	Level    string `json:"level"`
}

// command returns the command that compiles a source to a program. rustc and go name levels differently; go can only
// turn optimisation off.
func (b Build) command(source, program string) ([]string, error) {
	words, err := split(b.Compiler)
	if err != nil {
		return nil, err
	}
	level, err := split(b.Level)
	if err != nil {
		return nil, err
	}
	level[0] = "-" + strings.TrimPrefix(level[0], "-")
	var libraries []string
	switch tool := filepath.Base(words[0]); {
	case strings.HasPrefix(tool, "rustc"):
		level[0] = "-Copt-level=" + strings.TrimPrefix(level[0], "-O")
	case tool == "go":
		words = append(words, "build")
		if level = level[1:]; b.Level == "O0" || b.Level == "-O0" {
			level = append(level, "-gcflags=-N -l")
		}
	default:
		words, libraries = cutLibraries(words)
	}
	return slices.Concat(words, level, []string{"-o", program, source}, libraries), nil
}

// cutLibraries takes -lm and the like out of a compiler's flags. Linkers take from a library what earlier files lack.
func cutLibraries(words []string) (flags, libraries []string) {
	for _, w := range words {
		if strings.HasPrefix(w, "-l") {
			libraries = append(libraries, w)
		} else {
			flags = append(flags, w)
		}
	}
	return flags, libraries
}

func split(text string) ([]string, error) {
	words, err := launch.Words(text)
	if err == nil && len(words) == 0 {
		err = errors.New("name a compiler and a level, such as gcc-12 and O2")
	}
	return words, err
}

func (b Build) compile(ctx context.Context, source, to string) error {
	words, err := b.command(source, to)
	if err != nil {
		return &launch.Error{Subject: fmt.Sprintf("%s -%s", b.Compiler, b.Level), Problem: "it cannot be run", Err: err}
	}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return launch.Errorf(words[0], "install it or leave it out of -matrix", "there is no such compiler")
	case err != nil:
		return &launch.Error{Subject: strings.Join(words, " "), Problem: "it does not compile: " + strings.TrimSpace(string(out)), Err: err}
	}
	return nil
}
