// Package recording holds a core's raw readings as text: those of the clock, the contention probe and the calibration chains at each
// start, and every timed run of some known blocks. A user attaches one to a report. Tests replay it through the code for live
// readings, so that each rule of timing is tested on every recorded core.
//
// The text is compressed with gzip. Each line is a key and its values, all times in ticks:
//
//	bbprof-recording 1
//	cpu GenuineIntel 6 143 8 Golden Cove       vendor, family, model, stepping, core
//	cpuid 1 0 c06f2 ...                        leaf, subleaf, eax, ebx, ecx, edx
//	clock 26 2596000000                        step, ticks per second
//	probe 64                                   iterations of 64 adds; then "nops" if each has nops, too
//	code 5f2c...                               hash of the code that was timed
//	start note                                 a start of bbprof
//	r probe add add imul imul                  one sample of it: the probe, the shorter and the longer chain of adds and of multiplies
//	n                                          the next sample is of the next try
//	b ticks                                    a burst of stores
//	block hex low high short long              a block, what it is known to take, and the copies in its images
//	w replicate layout probe chain chain       a window; without the last three it was disturbed
//	s replicate layout ...                     a window of a child run that saw a context switch
//	t ticks...                                 the runs of an image in it: short, long, short, long
package recording

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Version is the format's version; a reader refuses any other.
const Version = 1

// Recording is a core's raw readings.
type Recording struct {
	CPU            CPU
	Registers      []Registers // of CPUID
	Step           float64     // of the clock, in ticks
	TicksPerSecond float64
	Iterations     int // of the contention probe
	Nops           bool
	Code           string // hash of the code that is timed: probe, chains, samplers
	Starts         []Start
	Blocks         []Block

	// Next is the template of the next block's timings, without images and windows.
	Next     Block
	starting bool
}

// CPU identifies the kind of core.
type CPU struct {
	Vendor                  string
	Family, Model, Stepping int
	Core                    string // bbprof's name
}

// Registers is an answer of CPUID.
type Registers struct{ Leaf, Subleaf, EAX, EBX, ECX, EDX uint32 }

// SameAnswer reports whether two subleaves have equal registers, as those of a leaf without subleaves do.
func (c Registers) SameAnswer(d Registers) bool {
	return c.EAX == d.EAX && c.EBX == d.EBX && c.ECX == d.ECX && c.EDX == d.EDX
}

// Start is one start of bbprof, try by try.
type Start struct {
	Note   string
	Tries  [][]Sample
	Bursts []uint64
}

// Sample is one reading each of the contention probe, of the shorter and the longer chain of adds, and of those of multiplies.
type Sample [5]uint64

// Block is a block of known cycles.
type Block struct {
	Code        []byte
	Low, High   float64 // cycles per iteration; both 0 if unknown
	Short, Long int     // iterations of its images
	Windows     []Window
}

// Window is one window of a block.
type Window struct {
	Replicate, Layout int
	Switched          bool // a context switch came between
	Probe             uint64
	Chains            []uint64   // empty if it was disturbed
	Runs              [][]uint64 // of short, long, short, long
}

// Write writes the text uncompressed.
func (r *Recording) Write(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "bbprof-recording %d\n", Version)
	fmt.Fprintf(w, "cpu %s %d %d %d %s\n", cmp.Or(r.CPU.Vendor, "-"), r.CPU.Family, r.CPU.Model, r.CPU.Stepping, r.CPU.Core)
	for _, c := range r.Registers {
		fmt.Fprintf(w, "cpuid %x %x %x %x %x %x\n", c.Leaf, c.Subleaf, c.EAX, c.EBX, c.ECX, c.EDX)
	}
	fmt.Fprintf(w, "clock %g %.0f\n", r.Step, r.TicksPerSecond)
	nops := ""
	if r.Nops {
		nops = " nops"
	}
	fmt.Fprintf(w, "probe %d%s\n", r.Iterations, nops)
	fmt.Fprintf(w, "code %s\n", r.Code)
	for _, s := range r.Starts {
		fmt.Fprintf(w, "start %s\n", s.Note)
		for i, try := range s.Tries {
			if i > 0 {
				fmt.Fprintln(w, "n")
			}
			for _, sample := range try {
				numbers(w, "r", sample[:])
			}
		}
		for _, b := range s.Bursts {
			numbers(w, "b", []uint64{b})
		}
	}
	for _, b := range r.Blocks {
		fmt.Fprintf(w, "block %x %g %g %d %d\n", b.Code, b.Low, b.High, b.Short, b.Long)
		for _, at := range b.Windows {
			key := "w"
			if at.Switched {
				key = "s"
			}
			head := fmt.Sprintf("%s %d %d", key, at.Replicate, at.Layout)
			if len(at.Chains) == 0 {
				fmt.Fprintln(w, head)
				continue
			}
			numbers(w, head, append([]uint64{at.Probe}, at.Chains...))
			for _, runs := range at.Runs {
				numbers(w, "t", runs)
			}
		}
	}
	return w.Flush()
}

func numbers(w *bufio.Writer, head string, values []uint64) {
	w.WriteString(head)
	for _, v := range values {
		w.WriteByte(' ')
		w.WriteString(strconv.FormatUint(v, 10))
	}
	w.WriteByte('\n')
}

// Read reads what Write wrote, compressed with gzip. An error names the line.
func Read(from io.Reader) (*Recording, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("a recording is compressed with gzip: %w", err)
	}
	r := &Recording{}
	lines := bufio.NewScanner(zip)
	lines.Buffer(nil, maxLine)
	n := 0
	for ; lines.Scan(); n++ {
		key, rest, _ := strings.Cut(lines.Text(), " ")
		if n == 0 {
			if want := strconv.Itoa(Version); key != "bbprof-recording" || rest != want {
				return nil, fmt.Errorf("line 1 is %.60q, not the head of a recording of version %s", lines.Text(), want)
			}
			continue
		}
		if err := r.line(key, rest); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("after line %d: %w", n, lines.Err())
	case n == 0:
		return nil, errors.New("the recording is empty")
	case r.Step <= 0:
		return nil, errors.New("no line says how the clock steps")
	}
	return r, nil
}

// maxLine is longer than any line that Write writes: the most runs of an image, in digits.
const maxLine = 1 << 16

func (r *Recording) line(key, rest string) error {
	switch key {
	case "cpu":
		_, err := fmt.Sscanf(rest, "%s %d %d %d", &r.CPU.Vendor, &r.CPU.Family, &r.CPU.Model, &r.CPU.Stepping)
		fields := strings.SplitN(rest, " ", 5)
		r.CPU.Core = fields[len(fields)-1]
		return err
	case "cpuid":
		var c Registers
		_, err := fmt.Sscanf(rest, "%x %x %x %x %x %x", &c.Leaf, &c.Subleaf, &c.EAX, &c.EBX, &c.ECX, &c.EDX)
		r.Registers = append(r.Registers, c)
		return err
	case "clock":
		_, err := fmt.Sscanf(rest, "%g %g", &r.Step, &r.TicksPerSecond)
		if err == nil && (r.Step < 1 || r.Step > 1e6 || r.TicksPerSecond < 1) {
			return fmt.Errorf("no clock steps %g ticks, %g a second", r.Step, r.TicksPerSecond)
		}
		return err
	case "probe":
		_, err := fmt.Sscanf(rest, "%d", &r.Iterations)
		r.Nops = strings.HasSuffix(rest, " nops")
		return err
	case "code":
		r.Code = rest
		return nil
	case "start":
		r.Starts = append(r.Starts, Start{Note: rest, Tries: [][]Sample{nil}})
		return nil
	case "block":
		var b Block
		var code string
		if _, err := fmt.Sscanf(rest, "%s %g %g %d %d", &code, &b.Low, &b.High, &b.Short, &b.Long); err != nil {
			return err
		}
		b.Code = make([]byte, len(code)/2)
		if _, err := hex.Decode(b.Code, []byte(code)); err != nil {
			return err
		}
		if b.Short < 0 || b.Long <= b.Short {
			return fmt.Errorf("no images hold %d and %d copies", b.Short, b.Long)
		}
		r.Blocks = append(r.Blocks, b)
		return nil
	case "":
		return nil
	}
	return r.reading(key, rest)
}

// reading reads a line of a start or of a block.
func (r *Recording) reading(key, rest string) error {
	var values []uint64
	for _, field := range strings.Fields(rest) {
		v, err := strconv.ParseUint(field, 10, 53) // what a float64 holds
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	inStart, inBlock := len(r.Starts) > 0 && len(r.Blocks) == 0, len(r.Blocks) > 0
	switch {
	case key == "n" && inStart:
		s := &r.Starts[len(r.Starts)-1]
		s.Tries = append(s.Tries, nil)
	case key == "r" && inStart && len(values) == len(Sample{}):
		s := &r.Starts[len(r.Starts)-1]
		try := &s.Tries[len(s.Tries)-1]
		*try = append(*try, Sample(values))
	case key == "b" && inStart && len(values) == 1:
		s := &r.Starts[len(r.Starts)-1]
		s.Bursts = append(s.Bursts, values[0])
	case (key == "w" || key == "s") && inBlock && (len(values) == 2 || len(values) > 3):
		w := Window{Replicate: int(values[0]), Layout: int(values[1]), Switched: key == "s"}
		if len(values) > 2 {
			w.Probe, w.Chains = values[2], values[3:]
		}
		b := &r.Blocks[len(r.Blocks)-1]
		b.Windows = append(b.Windows, w)
	case key == "t" && inBlock && len(values) > 0 && len(r.Blocks[len(r.Blocks)-1].Windows) > 0:
		windows := r.Blocks[len(r.Blocks)-1].Windows
		w := &windows[len(windows)-1]
		w.Runs = append(w.Runs, values)
	default:
		return fmt.Errorf("%q with %d values has no place here", key, len(values))
	}
	return nil
}
