package predict

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/verdict"
)

// MCA runs llvm-mca on a region of assembly per block, many in one process.
//
// A block's cycles are (T(long) − T(short))/(long − short) iterations: T(n) includes the time to fill the pipeline, and
// BlockRThroughput ignores dependencies. llvm-mc of the same version makes the text. A line that llvm-mca cannot parse
// ends the whole run, so that block is removed and the others run again. llvm-mca may silently drop instructions that it
// has no model for, so their number is checked.
type MCA struct {
	tool, disassembler string
	cpu                string
	version            string
	iterations         int  // of the short run; the long one has twice as many
	fixed              bool // set by the user: no third run, whatever the quantum
	alias              bool // loads may wait for stores: -noalias=false
	timeout            time.Duration
}

const (
	triple = "x86_64-unknown-linux-gnu"
	// Iterations: (T(100) − T(50))/50 is within 5 % of (T(400) − T(200))/200 for 99.9 % of blocks.
	iterations = 50
	// T counts whole cycles. A difference of enoughCycles has a quantum of 0.1 %; 50 iterations of a block of 1/4 cycle
	// read 0.24. Blocks with a smaller difference run a third time.
	enoughCycles = 1000
	// A third run adds a multiple of this many iterations: rates of 1/2 to 1/6 come out exact.
	multiple = 60
	// A third run adds at most this many: enough for 1/61 of a cycle.
	mostMore = multiple << 10
	// mostIterations far exceeds what fills any pipeline.
	mostIterations = 1_000_000
)

func newMCA(name string, s *settings, o Options) (Source, error) {
	version := strings.TrimPrefix(name, "llvm-mca")
	remedy := "Debian has it in package llvm" + version
	tool, err := find(name, remedy)
	if err != nil {
		return nil, err
	}
	disassembler, err := find("llvm-mc"+version, remedy)
	if err != nil {
		return nil, err
	}
	m := &MCA{tool: tool, disassembler: disassembler, timeout: o.Timeout}
	m.cpu = s.take("mcpu", cmp.Or(o.MCPU, o.Core.LLVM))
	if m.cpu == "" {
		return nil, usage("%s: say which core to predict with -mcpu, such as -mcpu znver4; the results do not tell", name)
	}
	n, err := s.number("iterations", 0)
	if err != nil {
		return nil, usage("%s: %w", name, err)
	}
	if n != math.Trunc(n) || n > mostIterations {
		return nil, usage("%s: iterations=%v: write a whole number from 1 to %d", name, n, mostIterations)
	}
	m.iterations, m.fixed = cmp.Or(int(n), iterations), n > 0
	switch text := s.take("noalias", "true"); text {
	case "true", "false":
		m.alias = text == "false"
	default:
		return nil, usage("%s: noalias=%s: write true, as llvm-mca has it by default, or false", name, text)
	}
	out, _ := exec.Command(m.tool, "--version").Output()
	m.version = cmp.Or(strings.TrimSpace(versionLine.FindString(string(out))), "llvm-mca")
	return m, m.check()
}

var versionLine = regexp.MustCompile(`.*version.*`)

// check fails if the tool does not run, or does not know the core: it would warn and predict another.
func (m *MCA) check() error {
	_, message, err := pipe(context.Background(), m.timeout, textOf([]region{{0, []string{"nop"}}}), m.tool, m.arguments("-iterations=1")...)
	if !strings.Contains(message, "is not a recognized processor") {
		if host := (*verdict.HostError)(nil); err == nil || errors.As(err, &host) {
			return err
		}
		return usage("%s, asked about a nop: %w", m.version, err)
	}
	remedy := oneLine(message)
	if all := Installed("llvm-mca"); len(all) > 1 {
		remedy = "installed are " + strings.Join(all, ", ")
		if all[0] != filepath.Base(m.tool) {
			remedy += "; use -model " + all[0]
		}
	}
	return usage("%s does not know -mcpu %s: %s", m.version, m.cpu, remedy)
}

// Installed lists the versions of a program in PATH, such as llvm-mca-22, the newest first, the one without a number last.
func Installed(program string) (names []string) {
	version := func(name string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(name, program+"-"))
		if name != program && err != nil {
			return -1
		}
		return n
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		found, _ := filepath.Glob(filepath.Join(dir, program+"*"))
		for _, path := range found {
			if name := filepath.Base(path); version(name) >= 0 && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return version(b) - version(a) })
	return names
}

func (m *MCA) String() string {
	how := fmt.Sprintf("as many iterations as predictions to %.1g %% take", 100./enoughCycles)
	if m.fixed {
		how = fmt.Sprintf("%d and %d iterations, so predictions are multiples of %.2g cycles", m.iterations, 2*m.iterations, 1/float64(m.iterations))
	}
	cpu := m.cpu
	if m.alias {
		cpu += " -noalias=false"
	}
	return fmt.Sprintf("%s, -mcpu=%s, %s", m.version, cpu, how)
}

// Aliasing toggles whether a load may wait for a store of the block; by default it may not.
func (m *MCA) Aliasing() *MCA {
	other := *m
	other.alias = !m.alias
	return &other
}

func (m *MCA) arguments(more ...string) []string {
	return append([]string{fmt.Sprintf("-noalias=%t", !m.alias), "-mtriple=" + triple, "-mcpu=" + m.cpu, "-json", "-"}, more...)
}

// Predict runs the blocks in as many processes as there are CPUs.
func (m *MCA) Predict(ctx context.Context, blocks []string) ([]score.Prediction, error) {
	return inChunks(ctx, len(blocks), chunk, runtime.NumCPU(), func(ctx context.Context, list []int) (map[int]score.Prediction, error) {
		return m.run(ctx, blocks, list)
	})
}

type region struct {
	index int
	lines []string
}

func (m *MCA) run(ctx context.Context, blocks []string, list []int) (map[int]score.Prediction, error) {
	answers := map[int]score.Prediction{}
	regions, err := disassemble(ctx, m.disassembler, m.timeout, blocks, list, answers)
	if err != nil {
		return nil, err
	}
	short, refused, err := m.simulate(ctx, regions, m.iterations)
	for len(refused) > 0 {
		maps.Copy(answers, refused)
		regions = slices.DeleteFunc(regions, func(r region) bool { return refused[r.index].Failure != "" })
		short, refused, err = m.simulate(ctx, regions, m.iterations)
	}
	if err != nil {
		return answers, err
	}
	long, _, err := m.simulate(ctx, regions, 2*m.iterations)
	if err != nil {
		return answers, err
	}
	again := map[int][]region{} // regions whose difference is too few cycles, by iterations beyond the long run's
	for _, r := range regions {
		cycles := long[r.index].TotalCycles - short[r.index].TotalCycles
		if m.fixed || cycles >= enoughCycles {
			answers[r.index] = between(m.iterations, short[r.index], 2*m.iterations, long[r.index], len(r.lines))
			continue
		}
		more := multiple
		for more < mostMore && more*cycles < enoughCycles*m.iterations {
			more *= 2
		}
		again[more] = append(again[more], r)
	}
	for more, regions := range again {
		n := 2*m.iterations + more
		last, _, err := m.simulate(ctx, regions, n)
		if err != nil {
			return answers, err
		}
		for _, r := range regions {
			answers[r.index] = between(2*m.iterations, long[r.index], n, last[r.index], len(r.lines))
		}
	}
	return answers, nil
}

// between returns the cycles of an iteration in steady state, from two runs.
func between(few int, short summary, many int, long summary, instructions int) score.Prediction {
	if short.Instructions != instructions*few || long.Instructions != many*instructions {
		return score.Failed(fmt.Sprintf("it ran %d instructions in %d iterations of %d", short.Instructions, few, instructions))
	}
	p := score.Prediction{Cycles: float64(long.TotalCycles-short.TotalCycles) / float64(many-few)}
	if !p.Known() {
		return score.Failed(fmt.Sprintf("it predicts 0 cycles: %d for %d iterations and %d for %d", short.TotalCycles, few, long.TotalCycles, many))
	}
	return p
}

type summary struct{ Instructions, TotalCycles int }

// lineError matches an error in a line of standard input.
var lineError = regexp.MustCompile(`(?m)^<stdin>:(\d+):\d+: error: (.*)$`)

// simulate runs some regions. refused are those with a line that the tool cannot parse.
func (m *MCA) simulate(ctx context.Context, regions []region, iterations int) (sums map[int]summary, refused map[int]score.Prediction, err error) {
	if len(regions) == 0 {
		return nil, nil, nil
	}
	report, message, err := m.ask(ctx, regions, "-instruction-info=false", "-resource-pressure=false", "-iterations="+strconv.Itoa(iterations))
	sums, refused = map[int]summary{}, map[int]score.Prediction{}
	if err != nil {
		lines := strings.Split(textOf(regions), "\n")
		for _, match := range lineError.FindAllStringSubmatch(message, -1) {
			n, _ := strconv.Atoi(match[1])
			n = min(n, len(lines))
			if begun := strings.Count(strings.Join(lines[:n], "\n"), regionStart); begun > 0 {
				refused[regions[begun-1].index] = score.Failed(match[2] + ": " + strings.ReplaceAll(lines[n-1], "\t", " "))
			}
		}
	}
	for _, r := range report.CodeRegions {
		if i, err := strconv.Atoi(strings.TrimPrefix(r.Name, "b")); err == nil {
			sums[i] = r.SummaryView
		}
	}
	return sums, refused, err
}

const regionStart = "# LLVM-MCA-BEGIN "

func textOf(regions []region) string {
	var text strings.Builder
	for _, r := range regions {
		fmt.Fprintf(&text, "%sb%d\n%s\n# LLVM-MCA-END b%[2]d\n", regionStart, r.index, strings.Join(r.lines, "\n"))
	}
	return text.String()
}

// mcaReport is what llvm-mca writes with -json.
type mcaReport struct {
	TargetInfo  struct{ Resources []string }
	CodeRegions []struct {
		Name                 string
		Instructions         []string
		SummaryView          summary
		ResourcePressureView struct {
			ResourcePressureInfo []struct {
				InstructionIndex, ResourceIndex int
				ResourceUsage                   float64
			}
		}
	}
}

// ask runs the tool. A model may loop forever, as LLVM's of Golden Cove does at xsave.
func (m *MCA) ask(ctx context.Context, regions []region, arguments ...string) (r mcaReport, message string, err error) {
	out, message, err := pipe(ctx, m.timeout, textOf(regions), m.tool, m.arguments(arguments...)...)
	if err != nil {
		return r, message, err
	}
	if err = json.Unmarshal(bytes.ReplaceAll(out, []byte{0}, nil), &r); err != nil { // version 14 writes NUL bytes
		err = fmt.Errorf("llvm-mca wrote no JSON: %w: %s", err, message)
	}
	return r, message, err
}

// Pressure returns the model's resources that each block uses, for example, "Zn4ALU1 1.00, Zn4Load 0.33", or "" if
// unknown. It reads llvm-mca's instruction tables without simulating.
func (m *MCA) Pressure(ctx context.Context, blocks []string) ([]string, error) {
	out := make([]string, len(blocks))
	all := make([]int, len(blocks))
	for i := range all {
		all[i] = i
	}
	for part := range slices.Chunk(all, chunk) {
		regions, err := disassemble(ctx, m.disassembler, m.timeout, blocks, part, map[int]score.Prediction{})
		if err != nil {
			return nil, err
		}
		report, _, err := m.ask(ctx, regions, "-instruction-tables")
		if err != nil {
			return nil, err
		}
		for _, region := range report.CodeRegions {
			var names []string
			cycles := map[string]float64{} // over all units of a name
			for _, p := range region.ResourcePressureView.ResourcePressureInfo {
				if p.InstructionIndex != len(region.Instructions) || p.ResourceIndex >= len(report.TargetInfo.Resources) { // not a total
					continue
				}
				// Some versions write a unit's number after a point as a control character.
				name := strings.TrimRightFunc(report.TargetInfo.Resources[p.ResourceIndex], func(r rune) bool { return r == '.' || r <= ' ' })
				if _, known := cycles[name]; !known {
					names = append(names, name)
				}
				cycles[name] += p.ResourceUsage
			}
			for i, name := range names {
				names[i] = fmt.Sprintf("%s %.2f", name, cycles[name])
			}
			if i, err := strconv.Atoi(strings.TrimPrefix(region.Name, "b")); err == nil && i < len(out) {
				out[i] = strings.Join(names, ", ")
			}
		}
	}
	return out, nil
}

// llvm-mc drops what it does not know. So a nop precedes each block in its output; the displacement is the block's place
// in the list. No compiler uses the nop's other operands.
const markerText = "(%rbp,%riz,8)"

// MarkedForMC returns two lines for llvm-mc --disassemble: the nop of block n, from 1, and the block.
func MarkedForMC(n int, code []byte) string {
	marker := []byte{0x0f, 0x1f, 0x84, 0xe5, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
	// Brackets keep a cut-off instruction from taking bytes of the next line.
	return strings.ReplaceAll(fmt.Sprintf("[% #x]\n[% #x]\n", marker, code), " ", ",")
}

// invalid matches a warning of llvm-mc about an input line.
var invalid = regexp.MustCompile(`(?m)^<stdin>:(\d+):\d+: warning: (.*)$`)

// disassemble has llvm-mc print blocks in AT&T syntax, which it reads back without loss. It answers blocks that llvm-mc
// cannot read.
func disassemble(ctx context.Context, tool string, timeout time.Duration, blocks []string, list []int, answers map[int]score.Prediction) ([]region, error) {
	var in strings.Builder
	for n, i := range list {
		code, _ := hex.DecodeString(blocks[i]) // if invalid, an empty line and an empty region
		in.WriteString(MarkedForMC(n+1, code))
	}
	out, message, err := pipe(ctx, timeout, in.String(), tool, "--disassemble", "-triple="+triple)
	warned := map[int]bool{}
	for _, match := range invalid.FindAllStringSubmatch(message, -1) {
		n, _ := strconv.Atoi(match[1])
		if k := (n - 1) / 2; n > 0 && k < len(list) {
			warned[list[k]] = true
			answers[list[k]] = score.Failed("llvm-mc: " + match[2])
		}
	}
	if err != nil && len(warned) == 0 {
		return nil, err
	}
	var regions []region
	current := -1
	for text := range strings.Lines(string(out)) {
		text = strings.TrimSpace(text)
		if before, ok := strings.CutSuffix(text, markerText); ok && strings.HasPrefix(text, "nopl") {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(before, "nopl")))
			if err == nil && n == len(regions)+1 && n <= len(list) { // a block may hold such a nop, too
				current = list[n-1]
				regions = append(regions, region{index: current})
				continue
			}
		}
		if current < 0 || text == "" || strings.HasPrefix(text, ".") {
			continue
		}
		last := &regions[len(regions)-1]
		last.lines = append(last.lines, text)
	}
	kept := regions[:0]
	for _, r := range regions {
		switch {
		case warned[r.index]:
		case len(r.lines) == 0:
			answers[r.index] = score.Failed("it holds no instruction")
		default:
			kept = append(kept, joinPrefixes(r))
		}
	}
	return kept, nil
}

// disassembleOne returns a block's text.
func disassembleOne(ctx context.Context, tool string, timeout time.Duration, block string) (string, error) {
	answers := map[int]score.Prediction{}
	regions, err := disassemble(ctx, tool, timeout, []string{block}, []int{0}, answers)
	if err != nil || len(regions) == 0 {
		return "", cmp.Or(err, errors.New(cmp.Or(answers[0].Failure, "no text for it")))
	}
	return strings.Join(regions[0].lines, "\n") + "\n", nil
}

// joinPrefixes puts prefixes on lines of their own before their instruction: llvm-mca would take them for instructions.
// It drops addr32 on an instruction's line, which llvm-mca also miscounts; a 32-bit address shows in its registers.
func joinPrefixes(r region) region {
	var joined []string
	held := ""
	for _, l := range r.lines {
		switch l = strings.TrimSpace(strings.TrimPrefix(l, "addr32")); l {
		case "":
		case "lock", "rep", "repne", "data16", "notrack":
			held += l + " "
		default:
			joined, held = append(joined, held+l), ""
		}
	}
	if held != "" {
		joined = append(joined, strings.TrimSpace(held))
	}
	return region{r.index, joined}
}

// pipe runs a program on some input. If it fails, the error has the end of its messages.
func pipe(ctx context.Context, timeout time.Duration, in, program string, args ...string) (out []byte, message string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &limitedBuffer{&stderr}
	cmd.WaitDelay = time.Second // for children that keep its output open when it is killed
	out, err = cmd.Output()
	message = stderr.String()
	if ctx.Err() != nil {
		return out, message, context.Cause(ctx)
	}
	if host := verdict.NoMoreFiles(err); host != nil {
		err = host
	} else if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%v: %s", exit, lastWords(message))
	}
	return out, message, err
}

// lastWords returns the last lines of an output, which say why a program ended.
func lastWords(message string) string {
	const most = 200
	message = strings.TrimSpace(message)
	if len(message) > most {
		message = message[len(message)-most:]
	}
	return cmp.Or(message, "it said nothing")
}

// limitedBuffer keeps the first megabyte written to it.
type limitedBuffer struct{ *bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	const most = 1 << 20
	l.Buffer.Write(p[:min(len(p), max(0, most-l.Len()))])
	return len(p), nil
}

type Explanation struct {
	Assembly string // its input
	Command  string // on a file of this name
	Output   string
}

// Timeline makes llvm-mca show when each instruction is issued and retired, in three iterations.
var Timeline = []string{"-timeline", "-timeline-max-iterations=3"}

// Explain runs llvm-mca with its default output, and more arguments.
func (m *MCA) Explain(ctx context.Context, block, file string, more ...string) (e Explanation, err error) {
	if e.Assembly, err = disassembleOne(ctx, m.disassembler, m.timeout, block); err != nil {
		return e, err
	}
	arguments := append([]string{"-mtriple=" + triple, "-mcpu=" + m.cpu, "-iterations=100"}, more...)
	if m.alias {
		arguments = append(arguments, "-noalias=false")
	}
	e.Command = filepath.Base(m.tool) + " " + strings.Join(append(arguments, file), " ")
	out, _, err := pipe(ctx, m.timeout, e.Assembly, m.tool, append(arguments, "-")...)
	e.Output = string(out)
	return e, err
}
