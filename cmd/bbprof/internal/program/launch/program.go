// Package launch runs whole programs in a controlled set-up and measures them.
//
// The size of the environment and the start of the stack determine a program's data addresses and thereby its speed
// (Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong!, ASPLOS 2009). A [Setup] fixes both
// to the byte, with address randomisation off. A [Runner] runs a [Command] in it on one CPU and measures the core
// cycles. If a command such as env or sh execs another program, [Command.Follow] makes that one the one set up and
// measured.
package launch

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

type Error = words.Error

// Errorf returns an *Error with its remedy and a formatted problem.
func Errorf(subject, remedy, problem string, args ...any) *Error {
	return &Error{Subject: subject, Problem: fmt.Sprintf(problem, args...), Remedy: remedy}
}

type Executable struct {
	Path string
	IsGo bool
	// Movable means that its own code can be moved: it is position-independent and loaded by a dynamic linker. See
	// [Setup.ImageShift].
	Movable bool
	Dynamic bool // a dynamic linker loads it

	code      []bool // by section: whether it is executed
	entry     uint64 // in the file, where its own code starts
	low, high uint64 // in the file, the pages it is mapped to
}

type Command struct {
	Exe  *Executable
	Args []string // without the program's name
	Name string   // as the user wrote it: what the program sees as its name
	// CleanEnv gives the program no environment except the padding, so that every shell is the same.
	CleanEnv bool

	launcher string // path of what is started, if it becomes Exe by exec or as a script
	execs    int    // execs after the start; the last one loads Exe
}

// NewCommand takes words as a shell does: the first names the program, by path or on PATH. For a script, Exe is the
// interpreter. A program that cannot be controlled gets an *Error.
func NewCommand(words []string) (Command, error) {
	if len(words) == 0 || words[0] == "" {
		return Command{}, Errorf("program", "write it and its arguments after --", "none is named")
	}
	c := Command{Args: words[1:], Name: words[0]}
	path, err := Find(words[0])
	if err != nil {
		return c, err
	}
	if by := interpreter(path); by != "" {
		c.launcher = path
		c.Exe, err = open(by)
	} else {
		c.Exe, err = open(words[0])
	}
	return c, err
}

// interpreter returns the path of a script's interpreter, or "" (execve(2)).
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line := make([]byte, 256) // BINPRM_BUF_SIZE, linux/binfmts.h
	n, _ := io.ReadFull(f, line)
	first, _, _ := strings.Cut(string(line[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) == 0 || !filepath.IsAbs(words[0]) {
		return ""
	}
	return words[0]
}

// open finds a program and checks that it is an x86-64 executable that runs with its caller's privileges.
func open(name string) (*Executable, error) {
	path, err := Find(name)
	if err != nil {
		return nil, err
	}
	if err := unprivileged(name, path); err != nil {
		return nil, err
	}
	e := &Executable{Path: path}
	return e, e.inspect(name)
}

// assignment matches LD_PRELOAD=./libx.so and the like.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// Find returns the path of a program, which may be a script, or an *Error that says why it cannot be executed.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		return "", Errorf(name, "write ./"+name, "it is found in the current directory only")
	case err != nil && assignment.MatchString(name):
		return "", Errorf(name, "set it before bbprof, as in "+name+" bbprof …: the program gets bbprof's environment",
			"no shell runs the program, to set a variable for it")
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", Errorf(name, "name it by its path, such as ./prog, or by a name that is on PATH", "there is no such program")
	case errors.Is(err, syscall.EISDIR):
		return "", Errorf(name, "name a program", "it is a directory")
	case err != nil:
		return "", &Error{Subject: name, Problem: "it cannot be executed", Remedy: "chmod +x makes a file executable", Err: cause(err)}
	}
	return path, nil
}

func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// unprivileged rejects files that would gain privileges: tracing removes them, and randomisation cannot be turned off
// (execve(2), personality(2)).
func unprivileged(name, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return &Error{Subject: name, Problem: "it cannot be read", Err: cause(err)}
	}
	const remedy = "run a copy without that: cp drops it"
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return Errorf(name, remedy, "it is setuid or setgid, and under control it would not run with those rights")
	}
	if n, err := unix.Getxattr(path, "security.capability", nil); err == nil && n > 0 {
		return Errorf(name, remedy, "it has file capabilities, and under control it would not run with those")
	}
	return nil
}

func (e *Executable) inspect(name string) error {
	f, err := os.Open(e.Path)
	if err != nil {
		return &Error{Subject: name, Problem: "it cannot be read", Err: cause(err)}
	}
	defer f.Close()
	file, err := elf.NewFile(f)
	if err != nil {
		return &Error{Subject: name, Problem: "it is not an ELF executable", Remedy: "name a compiled program", Err: err}
	}
	if file.Machine != elf.EM_X86_64 || file.Class != elf.ELFCLASS64 {
		return Errorf(name, "compile it for x86-64", "it is made for %v, %v", file.Machine, file.Class)
	}
	if file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN || file.Entry == 0 {
		return Errorf(name, "link it to an executable", "it is an ELF file (%v) but no program", file.Type)
	}
	e.entry = file.Entry
	e.low = 1<<64 - 1
	for _, p := range file.Progs {
		e.Dynamic = e.Dynamic || p.Type == elf.PT_INTERP
		if p.Type == elf.PT_LOAD {
			e.low, e.high = min(e.low, p.Vaddr&^(page-1)), max(e.high, p.Vaddr+p.Memsz)
		}
	}
	e.Movable = e.Dynamic && file.Type == elf.ET_DYN
	for _, s := range file.Sections {
		e.code = append(e.code, s.Flags&elf.SHF_EXECINSTR != 0)
	}
	e.IsGo = file.Section(".gopclntab") != nil || file.Section(".go.buildinfo") != nil
	return nil
}

// slide returns the program's offset in memory from its file addresses, given its entry there: 0 unless it is
// position-independent.
func (e *Executable) slide(entry uint64) uint64 { return entry - e.entry }
