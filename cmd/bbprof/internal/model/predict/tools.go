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
	"slices"
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
	arguments        []string // before the name for the core and the file
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
	out, _, err := pipe(ctx, t.timeout, "", t.path, slices.Concat(t.arguments, []string{t.arch, file})...)
	if err != nil {
		return 0, err
	}
	return t.read(out)
}

// newTool finds a tool and its name for a core.
func newTool(t tool, program, remedy string, s *settings, o Options) (Source, error) {
	var err error
	if t.path, err = find(program, remedy); err != nil {
		return nil, err
	}
	t.timeout = o.Timeout
	if t.arch = s.take("arch", t.arch); t.arch == "" {
		return nil, usage("%s: say which core to predict with %s,arch=NAME; it has no name for %s",
			t.name, t.name, cmp.Or(string(o.Core.Name), "the core of these results"))
	}
	return &t, nil
}

// newOSACA runs osaca. Like its authors, it predicts the larger of port pressure and loop-carried dependency.
func newOSACA(s *settings, o Options) (Source, error) {
	disassembler := append(Installed("llvm-mc"), "llvm-mc")[0]
	write := func(ctx context.Context, block string) ([]byte, error) {
		text, err := disassembleOne(ctx, disassembler, o.Timeout, block)
		return []byte("# OSACA-BEGIN\n" + text + "# OSACA-END\n"), err
	}
	t, err := newTool(tool{name: "osaca", arch: o.Core.OSACA, arguments: []string{"--yaml-out", "/dev/stdout", "--arch"}, write: write, read: readOSACA},
		"osaca", "pip install osaca", s, o)
	if err == nil {
		_, err = find(disassembler, "osaca gets its assembly from llvm-mc")
	}
	return t, err
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
	write := func(_ context.Context, block string) ([]byte, error) { return hex.DecodeString(o.measured(block)) }
	read := func(out []byte) (float64, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return 0, fmt.Errorf("uiCA wrote %q", oneLine(string(out)))
		}
		return v, nil
	}
	return newTool(tool{name: "uica", arch: o.Core.UICA, arguments: []string{"-raw", "-TPonly", "-arch"}, write: write, read: read},
		"uiCA.py", "put the folder of github.com/andreas-abel/uiCA into PATH", s, o)
}
