package predict

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/profiler"
)

// tool is a program that gets a file with a block and writes cycles.
type tool struct {
	name, path, arch string
	timeout          time.Duration
	arguments        []string // before the file's name
	write            func(ctx context.Context, block string) (content []byte, err error)
	read             func(out []byte) (cycles float64, err error)
}

func (t *tool) String() string { return fmt.Sprintf("%s for %s", t.name, t.arch) }

func (t *tool) Predict(ctx context.Context, blocks []string) ([]score.Prediction, error) {
	dir, err := os.MkdirTemp("", "bbprof-predict-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return inChunks(ctx, len(blocks), 1, runtime.NumCPU(), func(ctx context.Context, list []int) (map[int]score.Prediction, error) {
		cycles, err := t.one(ctx, filepath.Join(dir, strconv.Itoa(list[0])), blocks[list[0]])
		if err != nil {
			return nil, err
		}
		return map[int]score.Prediction{list[0]: {Cycles: cycles}}, nil
	})
}

func (t *tool) one(ctx context.Context, file, block string) (cycles float64, err error) {
	content, err := t.write(ctx, block)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return 0, err
	}
	defer os.Remove(file)
	out, _, err := pipe(ctx, t.timeout, "", t.path, append(t.arguments, file)...)
	if err != nil {
		return 0, err
	}
	return t.read(out)
}

// newTool finds a tool and its name for a core.
func newTool(name, program, arch, remedy string, s *settings, o Options) (*tool, error) {
	path, err := find(program, remedy)
	if err != nil {
		return nil, err
	}
	t := &tool{name: name, path: path, arch: s.take("arch", arch), timeout: o.Timeout}
	if t.arch == "" {
		return nil, usage("%s: say which core to predict with %s,arch=NAME; it has no name for %s",
			name, name, cmp.Or(string(o.Core.Name), "the core of these results"))
	}
	return t, nil
}

// newOSACA runs osaca. Like its authors, it predicts the larger of port pressure and loop-carried dependency.
func newOSACA(s *settings, o Options) (Source, error) {
	t, err := newTool("osaca", "osaca", o.Core.OSACA, "pip install osaca", s, o)
	if err != nil {
		return nil, err
	}
	disassembler := ""
	for _, program := range []string{"llvm-mc", "llvm-mc-22", "llvm-mc-19"} {
		if path, err := find(program, ""); err == nil {
			disassembler = cmp.Or(disassembler, path)
		}
	}
	if disassembler == "" {
		return nil, usage("llvm-mc is not installed, or not in PATH; osaca gets its assembly from llvm-mc")
	}
	t.arguments = []string{"--arch", t.arch, "--yaml-out", "/dev/stdout"}
	t.write = func(ctx context.Context, block string) ([]byte, error) {
		text, err := disassembleOne(ctx, disassembler, o.Timeout, block)
		return []byte("# OSACA-BEGIN\n" + text + "# OSACA-END\n"), err
	}
	t.read = readOSACA
	return t, nil
}

// readOSACA finds Summary in the YAML: LCD, and PortPressure, a list of numbers by port. The larger counts.
func readOSACA(out []byte) (cycles float64, err error) {
	_, text, _ := bytes.Cut(out, []byte("Summary:\n"))
	key := ""
	for line := range strings.Lines(string(text)) {
		if line[0] != ' ' && line[0] != '-' {
			break // the next part
		}
		value := strings.TrimPrefix(strings.TrimSpace(line), "- ")
		if name, rest, isKey := strings.Cut(value, ":"); isKey {
			key, value = name, strings.TrimSpace(rest)
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil && (key == "LCD" || key == "PortPressure") {
			cycles = max(cycles, v)
		}
	}
	if !(cycles > 0) {
		return 0, errors.New("osaca wrote no Summary with port pressure or a loop-carried dependency")
	}
	return cycles, nil
}

// measured drops a block's branch unless it closes the loop that was measured: uiCA takes all that ends in a branch for a
// loop.
func (o Options) measured(block string) string {
	insts, _ := asm.DecodeHex(block)
	branch, ok := asm.TrailingBranch(insts)
	if !ok || o.Branch.For(branch) == profiler.Taken {
		return block
	}
	return block[:2*branch.Offset]
}

func newUICA(s *settings, o Options) (Source, error) {
	t, err := newTool("uica", "uiCA.py", o.Core.UICA, "put the folder of github.com/andreas-abel/uiCA into PATH", s, o)
	if err != nil {
		return nil, err
	}
	t.arguments = []string{"-raw", "-arch", t.arch, "-TPonly"}
	t.write = func(_ context.Context, block string) ([]byte, error) { return hex.DecodeString(o.measured(block)) }
	t.read = func(out []byte) (float64, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return 0, fmt.Errorf("uiCA wrote %q", oneLine(string(out)))
		}
		return v, nil
	}
	return t, nil
}
