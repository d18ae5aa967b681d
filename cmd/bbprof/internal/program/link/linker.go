package link

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
)

type Linker struct{ dir string }

func NewLinker() (*Linker, error) {
	dir, err := os.MkdirTemp("", "bbprof-link-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the linked programs: %w", err)
	}
	return &Linker{dir}, nil
}

func (l *Linker) Close() { os.RemoveAll(l.dir) }

// Link links a program in all variants, reports their number to done, and gives the programs their arguments. A
// *launch.Error blames the command line or the program.
func (l *Linker) Link(ctx context.Context, r Recipe, variants []Variant, args []string, done func(int)) ([]launch.Command, error) {
	lld := ""
	if r.Preset != None {
		var err error
		if lld, err = l.lld(r); err != nil {
			return nil, err
		}
	}
	var commands []launch.Command
	different := map[[sha256.Size]byte]bool{}
	for i, v := range variants {
		out := l.path(r, v)
		if err := r.run(ctx, v, r.command(v, out, lld)); err != nil {
			return nil, err
		}
		c, err := launch.NewCommand(append([]string{out}, args...))
		if err != nil {
			return nil, r.problem(fmt.Sprintf("layout %d is not a program that can be run", v.Number), "", err)
		}
		commands = append(commands, c)
		file, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		different[sha256.Sum256(file)] = true
		done(i + 1)
	}
	if len(different) == 1 && len(variants) > 1 {
		return nil, r.problem(fmt.Sprintf("all %d links give the same program", len(variants)),
			"compile with -ffunction-sections -fdata-sections, so that there are sections to move, or see that the command line uses {seed}", nil)
	}
	return commands, nil
}

// pathLength is the length of a linked program's path: equal for all, because the kernel copies it onto the stack.
const pathLength = 64

func (l *Linker) path(r Recipe, v Variant) string {
	start := filepath.Join(l.dir, strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' {
			return c
		}
		return -1 // a script may pass the path on unquoted
	}, r.Side))
	return fmt.Sprintf("%s%0*d", start, max(pathLength-len(start), 4), v.Number)
}

const shownOutput = 4096

func (r Recipe) run(ctx context.Context, v Variant, words []string) error {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	// A compiler has children. Ctrl-C reaches bbprof only, which then kills them all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return r.problem(fmt.Sprintf("there is no program %s", words[0]), "name it by its path, or by a name that is on PATH", nil)
	case err != nil:
		text := strings.TrimSpace(said.String())
		if len(text) > shownOutput {
			text = "…" + text[len(text)-shownOutput:]
		}
		return r.problem(fmt.Sprintf("layout %d does not link: %v: %s\n%s", v.Number, err, strings.Join(words, " "), text), "", nil)
	}
	return nil
}

// lld makes a directory that contains lld under the name that compilers expect.
func (l *Linker) lld(r Recipe) (dir string, err error) {
	if r.isLinker() {
		return "", nil
	}
	path, err := findLLD()
	if err != nil {
		return "", r.problem("-lld needs lld", "Debian's package lld-22 has it", err)
	}
	dir = filepath.Join(l.dir, "lld")
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if err := os.Symlink(path, filepath.Join(dir, "ld.lld")); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// newest and oldest are the LLVM versions to look for: --randomize-section-padding came with pull request 117653 of
// llvm-project, in LLVM 20.
const newest, oldest = 29, 20

func findLLD() (string, error) {
	names := []string{"ld.lld"}
	for v := newest; v >= oldest; v-- {
		names = append(names, fmt.Sprintf("ld.lld-%d", v))
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if help, _ := exec.Command(path, "--help").Output(); bytes.Contains(help, []byte("--randomize-section-padding")) {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("no ld.lld on PATH has --randomize-section-padding")
}
