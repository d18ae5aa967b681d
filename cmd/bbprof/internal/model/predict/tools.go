package predict

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
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

// fileTool is a tool that gets a file of blocks and writes cycles.
type fileTool struct {
	name, path, arch string
	size, workers    int // blocks per process; processes
	timeout          time.Duration
	// form returns what the tool gets of a block, and whether it is to take that for a loop.
	form      func(block string) (text string, loop bool)
	arguments func(file string, loop bool) []string
	write     func(ctx context.Context, blocks []string) (content []byte, err error)
	read      func(out []byte, blocks []string) ([]score.Prediction, error) // shorter if it ended early
}

func (t *fileTool) String() string { return fmt.Sprintf("%s for %s", t.name, t.arch) }

func (t *fileTool) Predict(ctx context.Context, blocks []string) ([]score.Prediction, error) {
	dir, err := os.MkdirTemp("", "bbprof-predict-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all := make([]score.Prediction, len(blocks))
	for _, loops := range []bool{false, true} {
		var list []int
		var texts []string
		for i, b := range blocks {
			if text, loop := t.form(b); loop == loops {
				list, texts = append(list, i), append(texts, text)
			}
		}
		predictions, err := t.predict(ctx, dir, texts, loops)
		if err != nil {
			return nil, err
		}
		for k, i := range list {
			all[i] = predictions[k]
		}
	}
	return all, nil
}

// predict predicts blocks that are all loops, or none.
func (t *fileTool) predict(ctx context.Context, dir string, blocks []string, loops bool) ([]score.Prediction, error) {
	return inChunks(ctx, len(blocks), t.size, t.workers, func(ctx context.Context, list []int) (map[int]score.Prediction, error) {
		var texts []string
		for _, i := range list {
			texts = append(texts, blocks[i])
		}
		content, err := t.write(ctx, texts)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(dir, fmt.Sprintf("blocks-%d", list[0]))
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, err
		}
		defer os.Remove(name)
		ctx, cancel := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("no answer within %v", t.timeout))
		defer cancel()
		out, _, failed := pipe(ctx, "", t.path, t.arguments(name, loops)...)
		predictions, err := t.read(out, texts)
		answers := map[int]score.Prediction{}
		for k, p := range predictions {
			answers[list[k]] = p
		}
		if failed != nil {
			err = failed
		}
		return answers, err
	})
}

// newTool finds a tool and its name for a core.
func newTool(name, program, arch, remedy string, s *settings, o Options) (*fileTool, error) {
	path, err := find(program, remedy)
	if err != nil {
		return nil, err
	}
	t := &fileTool{name: name, path: path, arch: s.take("arch", arch), timeout: o.Timeout, size: 1, form: o.form, workers: runtime.NumCPU()}
	if t.arch == "" {
		return nil, usage("%s: say which core to predict with %s,arch=NAME; it has no name for %s", name, name, cmp.Or(o.Core.Name, "the core of these results"))
	}
	return t, nil
}

// newOSACA runs osaca once per block. Like its authors, it predicts the larger of port pressure and loop-carried
// dependency.
func newOSACA(s *settings, o Options) (Source, error) {
	t, err := newTool("osaca", "osaca", o.Core.OSACA, "pip install osaca", s, o)
	if err != nil {
		return nil, err
	}
	disassembler, err := findAny([]string{"llvm-mc", "llvm-mc-22", "llvm-mc-19"}, "osaca gets its assembly from llvm-mc")
	if err != nil {
		return nil, err
	}
	t.write = func(ctx context.Context, blocks []string) ([]byte, error) {
		answers := map[int]score.Prediction{}
		regions, err := disassemble(ctx, disassembler, o.Timeout, blocks, []int{0}, answers)
		if err != nil {
			return nil, err
		}
		if p, failed := answers[0]; failed || len(regions) == 0 {
			return nil, fmt.Errorf("%s", cmp.Or(p.Failure, "no text for it"))
		}
		return []byte("# OSACA-BEGIN\n" + strings.Join(regions[0].lines, "\n") + "\n# OSACA-END\n"), nil
	}
	t.form = func(block string) (string, bool) { return block, false } // it takes all for loops
	t.arguments = func(file string, _ bool) []string {
		return []string{"--arch", t.arch, "--yaml-out", "/dev/stdout", file}
	}
	t.read = func(out []byte, _ []string) ([]score.Prediction, error) { return readOSACA(out) }
	return t, nil
}

// readOSACA finds Summary in the YAML: LCD, and PortPressure, a list of numbers by port.
func readOSACA(out []byte) ([]score.Prediction, error) {
	_, text, ok := bytes.Cut(out, []byte("Summary:"))
	if !ok {
		return nil, fmt.Errorf("osaca wrote no Summary")
	}
	var largest float64
	in := ""
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		if line[0] != ' ' && line[0] != '\n' && line[0] != '-' {
			break // the next part
		}
		value := trimmed
		if key, rest, isKey := strings.Cut(trimmed, ":"); isKey {
			in, value = key, strings.TrimSpace(rest)
			if in != "LCD" && in != "PortPressure" {
				continue
			}
		}
		if in != "LCD" && in != "PortPressure" && in != "" {
			if !strings.HasPrefix(trimmed, "- ") {
				continue
			}
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(value, "-")), 64); err == nil {
			largest = max(largest, v)
		}
	}
	p := score.Prediction{Cycles: largest}
	if !p.Known() {
		return nil, fmt.Errorf("osaca's Summary has neither port pressure nor a loop-carried dependency")
	}
	return []score.Prediction{p}, nil
}

// form drops a block's branch unless it closes the loop that was measured: uiCA takes all that ends in a branch for a loop.
func (o Options) form(block string) (text string, loop bool) {
	insts, _ := asm.DecodeHex(block)
	branch, ok := asm.TrailingBranch(insts)
	switch {
	case !ok:
		return block, false
	case o.Branch == profiler.Taken || o.Branch == "" && branch.ToStart():
		return block, true
	}
	return block[:2*branch.Offset], false
}

func newUICA(s *settings, o Options) (Source, error) {
	t, err := newTool("uica", "uiCA.py", o.Core.UICA, "put the folder of github.com/andreas-abel/uiCA into PATH", s, o)
	if err != nil {
		return nil, err
	}
	t.write = func(_ context.Context, blocks []string) ([]byte, error) { return hex.DecodeString(blocks[0]) }
	t.arguments = func(file string, _ bool) []string { return []string{file, "-raw", "-arch", t.arch, "-TPonly"} }
	t.read = func(out []byte, _ []string) ([]score.Prediction, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return nil, fmt.Errorf("uiCA wrote %q", oneLine(string(out)))
		}
		return []score.Prediction{{Cycles: v}}, nil
	}
	return t, nil
}

func newFacile(s *settings, o Options) (Source, error) {
	t, err := newTool("facile", "facile.py", o.Core.UICA, "put the folder of github.com/andreas-abel/uiCA into PATH", s, o)
	if err != nil {
		return nil, err
	}
	t.size = chunk
	fixed := s.take("mode", "")
	t.write = func(_ context.Context, blocks []string) ([]byte, error) {
		return []byte(strings.Join(blocks, "\n") + "\n"), nil
	}
	t.arguments = func(file string, loop bool) []string {
		mode := "unroll"
		if loop {
			mode = "loop"
		}
		return []string{"-file", file, "-mode", cmp.Or(fixed, mode), "-arch", t.arch}
	}
	t.read = readFacile
	return t, nil
}

// readFacile reads lines such as "4801c0: 1.00".
func readFacile(out []byte, blocks []string) ([]score.Prediction, error) {
	var predictions []score.Prediction
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() && len(predictions) < len(blocks) {
		block, text, ok := strings.Cut(lines.Text(), ":")
		if !ok || !strings.EqualFold(strings.TrimSpace(block), blocks[len(predictions)]) {
			continue
		}
		p := score.Failed(oneLine("facile wrote " + text))
		if v, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
			p = score.Prediction{Cycles: v}
		}
		predictions = append(predictions, p)
	}
	return predictions, nil
}

// findAny finds the first of these that is installed.
func findAny(programs []string, why string) (string, error) {
	for _, p := range programs {
		if path, err := find(p, ""); err == nil {
			return path, nil
		}
	}
	return "", usage("%s is not installed, or not in PATH; %s", programs[0], why)
}
