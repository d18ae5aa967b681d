package predict

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/verdict"
)

// command is a program that reads blocks, one a line, and writes hex,cycles, in any order. Other text instead of cycles
// means that there is no prediction.
type command struct {
	text    string
	words   []string
	timeout time.Duration
}

// commandChunk is how many blocks a program gets: many, since a learned model starts slowly.
const commandChunk = 4096

func newCommand(text string, o Options) (Source, error) {
	words, err := shellwords.Parse(text)
	if err != nil || len(words) == 0 {
		return nil, usage("exec:%s: write a command after exec:", text)
	}
	if _, err := find(words[0], "write a command after exec:"); err != nil {
		return nil, err
	}
	return &command{text, words, o.Timeout}, nil
}

func (c *command) String() string { return c.text }

func (c *command) Predict(ctx context.Context, blocks []string) ([]score.Prediction, error) {
	return inChunks(ctx, len(blocks), commandChunk, 1, func(ctx context.Context, list []int) (map[int]score.Prediction, error) {
		return c.run(ctx, blocks, list)
	})
}

// run lets the program answer some blocks, until it ends or is idle for too long.
func (c *command) run(ctx context.Context, blocks []string, list []int) (map[int]score.Prediction, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.timeout, func() { cancel(fmt.Errorf("no answer within %v", c.timeout)) })
	defer idle.Stop()

	var (
		in     strings.Builder
		index  = map[string]int{}
		stderr bytes.Buffer
	)
	for _, i := range list {
		index[blocks[i]] = i
		in.WriteString(blocks[i] + "\n")
	}
	cmd := exec.CommandContext(ctx, c.words[0], c.words[1:]...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(in.String()), &limitedBuffer{&stderr}
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if host := verdict.NoMoreFiles(err); host != nil {
		return nil, host
	} else if err != nil {
		return nil, usage("%s: %w", c.text, err)
	}
	answers := map[int]score.Prediction{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		idle.Reset(c.timeout)
		block, text, _ := strings.Cut(lines.Text(), ",")
		i, ok := index[strings.ToLower(strings.TrimSpace(block))]
		if ok && decimalComma.MatchString(text) {
			cancel(usage("it writes the line %.80q: write cycles with a point, such as 1.50 "+
				"(LC_ALL=C makes many programs do so), and no other number after them", lines.Text()))
			break
		}
		if ok {
			answers[i] = answerOf(text)
		}
	}
	if lines.Err() != nil {
		cancel(fmt.Errorf("cannot read a line of its output: %w", lines.Err()))
	}
	err = cmd.Wait()
	switch exit := (*exec.ExitError)(nil); {
	case context.Cause(ctx) != nil:
		return answers, context.Cause(ctx)
	case errors.As(err, &exit):
		return answers, fmt.Errorf("%v: %s", exit, lastWords(stderr.String()))
	case err != nil && !errors.Is(err, io.ErrClosedPipe) && !strings.Contains(err.Error(), "broken pipe"):
		return answers, err
	}
	return answers, nil
}

// decimalComma matches an answer such as 1,50, which may mean 1.5 but would count as 1.
var decimalComma = regexp.MustCompile(`^\s*[0-9]+,[0-9]+\s*(,|$)`)

// answerOf parses the text after the block. Another comma ends the number.
func answerOf(text string) score.Prediction {
	number, why, _ := strings.Cut(text, ",")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if p := (score.Prediction{Cycles: v}); err == nil && p.Known() {
		return p
	}
	if why = strings.TrimSpace(why); why != "" {
		return score.Failed(oneLine(why))
	}
	return score.Failed(oneLine(fmt.Sprintf("it answers %q", number)))
}
