// Package predict asks models how many cycles blocks take. A [Source] is a file of predictions, a tool that bbprof can
// call, or any command that reads blocks and writes cycles.
//
// A block that crashes, hangs or is refused by a tool must not cost other blocks their predictions: [isolation] runs
// many blocks at a time and splits failed runs until one block is to blame.
package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type Source interface {
	// Predict predicts each block, in order. Blocks are lower-case hexadecimal digits, each at most once.
	Predict(ctx context.Context, blocks []string) ([]score.Prediction, error)
	// String names the predictor, its version and settings.
	String() string
}

type Options struct {
	Core    cpu.Core // to predict
	MCPU    string
	Timeout time.Duration // limit for an answer
	// Branch is how the branches at the blocks' ends were measured, "" by default.
	Branch profiler.Branch
	// Open opens a file of predictions.
	Open func(name string) (columns []string, rows iter.Seq2[[]string, error], err error)
}

type UsageError struct{ error }

func usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

func (e *UsageError) Unwrap() error { return e.error }

// execPrefix starts a source that is a command.
const execPrefix = "exec:"

// Parse parses a source: exec:COMMAND, a tool or a file, the last two with comma-separated settings, such as
// uica.csv,column=uiCA,scale=0.01.
func Parse(text string, o Options) (Source, error) {
	if command, ok := strings.CutPrefix(text, execPrefix); ok {
		return newCommand(command, o)
	}
	if name, ok := strings.CutPrefix(text, resourcesPrefix); ok {
		return newMeasuredTable(name, o.Core.Name)
	}
	name, settings, err := split(text)
	if err != nil {
		return nil, err
	}
	var s Source
	switch {
	case name == "llvm-mca" || strings.HasPrefix(name, "llvm-mca-"):
		s, err = newMCA(name, settings, o)
	case name == "lower-bound":
		if o.Core.Name == "" {
			return nil, usage("the lower bound depends on the core; name it with -core")
		}
		s = LowerBounds(o.Core)
	case name == "osaca":
		s, err = newOSACA(settings, o)
	case name == "uica":
		s, err = newUICA(settings, o)
	default:
		s, err = newFile(name, settings, o)
	}
	if err != nil {
		return nil, err
	}
	for unknown := range settings.values {
		return nil, usage("%s: no setting %q; there are %s", name, unknown, cmp.Or(strings.Join(settings.asked, ", "), "none"))
	}
	return s, nil
}

type settings struct {
	values map[string]string
	asked  []string
}

func split(text string) (name string, s *settings, err error) {
	parts := strings.Split(text, ",")
	s = &settings{values: map[string]string{}}
	for _, p := range parts[1:] {
		key, value, ok := strings.Cut(p, "=")
		if !ok {
			return "", nil, usage("%s: %q is not a setting; write NAME=VALUE after a comma", parts[0], p)
		}
		s.values[key] = value
	}
	if parts[0] == "" {
		return "", nil, usage("no source named; give a file, a tool such as llvm-mca-22, or exec:COMMAND")
	}
	return parts[0], s, nil
}

func (s *settings) take(key, otherwise string) string {
	s.asked = append(s.asked, key)
	if v, ok := s.values[key]; ok {
		delete(s.values, key)
		return v
	}
	return otherwise
}

func (s *settings) number(key string, otherwise float64) (float64, error) {
	text := s.take(key, "")
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, usage("%s=%s: write a number above 0", key, text)
	}
	return v, nil
}

// find returns a program's path. remedy says how to get it.
func find(program, remedy string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", usage("%s is not installed, or not in PATH; %s", program, remedy)
	}
	return path, nil
}

// chunk is how many blocks a tool gets at a time: enough to amortise its start, few enough that a failing block costs
// little.
const chunk = 256

// run asks a tool about some blocks, by index. Unanswered blocks failed with err, or got no answer if it is nil.
type run func(ctx context.Context, blocks []int) (map[int]score.Prediction, error)

// inChunks runs all blocks through a tool, with several workers.
func inChunks(ctx context.Context, n, size, workers int, tool run) ([]score.Prediction, error) {
	iso := &isolation{tool: tool, out: make([]score.Prediction, n)}
	blocks := make([]int, n)
	for i := range blocks {
		blocks[i] = i
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var working sync.WaitGroup
	free := make(chan bool, workers)
	for part := range slices.Chunk(blocks, size) {
		free <- true
		working.Go(func() {
			defer func() { <-free }()
			if err := iso.run(ctx, part); err != nil {
				cancel(err)
			}
		})
	}
	working.Wait()
	return iso.out, context.Cause(ctx)
}

// isolation finds the blocks on which a tool fails.
type isolation struct {
	tool run
	out  []score.Prediction

	mu       sync.Mutex
	answered bool
	failed   int // single blocks that failed before any answer
}

// giveUpAfter is how many single blocks may fail before any answer until the tool counts as broken.
const giveUpAfter = 8

// run asks about some blocks. If the tool fails after answering some, the first unanswered block is the suspect and is
// tried alone; if it answers none, the blocks are tried in parts.
func (s *isolation) run(ctx context.Context, blocks []int) error {
	for len(blocks) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		answers, err := s.tool(ctx, blocks)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		bad, host := (*UsageError)(nil), (*verdict.HostError)(nil)
		if errors.As(err, &bad) || errors.As(err, &host) {
			return err
		}
		rest := s.take(blocks, answers)
		switch {
		case len(rest) == 0:
			return nil
		case err == nil:
			for _, i := range rest {
				s.out[i] = score.Failed("no answer")
			}
			return nil
		case len(blocks) == 1:
			return s.blame(blocks[0], err)
		case len(rest) < len(blocks):
			if err := s.run(ctx, rest[:1]); err != nil {
				return err
			}
			blocks = rest[1:]
		default:
			// A tool that hangs on one block of 256 is waited for three times; with halving, nine times.
			const parts = 16
			for part := range slices.Chunk(blocks, max(1, len(blocks)/parts)) {
				if err := s.run(ctx, part); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return nil
}

// take stores answers and returns the blocks without one.
func (s *isolation) take(blocks []int, answers map[int]score.Prediction) (rest []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range blocks {
		p, ok := answers[i]
		if !ok {
			rest = append(rest, i)
			continue
		}
		s.out[i] = p
		s.answered = true
	}
	return rest
}

// blame records a block on which the tool fails. An error means that the tool is broken.
func (s *isolation) blame(block int, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out[block] = score.Failed(oneLine(err.Error()))
	s.out[block].Died = true
	s.failed++
	if !s.answered && s.failed >= giveUpAfter {
		return usage("it has failed at each of %d blocks: %w", s.failed, err)
	}
	return nil
}

// oneLine joins the lines of a message and cuts it off if long.
func oneLine(message string) string {
	const most = 300
	s := strings.Join(strings.Fields(message), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + " …"
	}
	return s
}
