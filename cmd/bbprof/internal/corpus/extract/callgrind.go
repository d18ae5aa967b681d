package extract

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const callgrindRun = "valgrind --tool=callgrind --dump-instr=yes"

// ReadCallgrind adds up files from valgrind --tool=callgrind --dump-instr=yes, one for each process of a run.
//
// The format (valgrind manual, "Callgrind Format Specification"): a line "ob=(1) PATH" names the object of the
// following lines, and "ob=(1)" refers to it again. A cost line holds an address and the instruction's execution
// count; "+N", "-N" and "*" are relative to the previous address. --dump-line=yes puts a line number between the
// two, and simulations, named by the line "events:", more counts behind. The line after "calls=" is the callee's
// inclusive cost, not an instruction's.
func ReadCallgrind(files ...string) (*Profile, error) {
	p, err := readEvents([]string{executed}, files...)
	if err != nil {
		return nil, err
	}
	if p[0].Total == 0 {
		return nil, &InputError{Subject: p[0].Source, Problem: "no instruction has a count", Remedy: "run callgrind with --dump-instr=yes"}
	}
	return p[0], nil
}

// executed is callgrind's event of executions.
const executed = "Ir"

// readEvents adds up some events. All but executions are like samples: they are not as many as an instruction ran.
func readEvents(events []string, files ...string) (profiles []*Profile, err error) {
	counts := map[string][]map[uint64]uint64{}
	for _, name := range files {
		r := newCallgrindReader(events, counts)
		if err := eachLine(name, "write it by "+callgrindRun, r.take); err != nil {
			return nil, err
		}
	}
	for i, event := range events {
		p := &Profile{Source: strings.Join(files, ", "), objects: map[string]objectCounts{}}
		for name, of := range counts {
			c := newExactCounts(of[i], event != executed)
			switch ran := total(c); {
			case strings.HasPrefix(path.Base(name), "vgpreload_"): // valgrind's own
			case !strings.HasPrefix(name, "/"): // code generated at run time, or the kernel: not in a file
				p.Lost += ran
				p.Total += ran
			default:
				p.Total += ran
				p.objects[Resolved(name)] = objectCounts{name, c}
			}
		}
		profiles = append(profiles, p)
	}
	return profiles, nil
}

type callgrindReader struct {
	events  []string
	columns []int                          // of the events among the costs
	counts  map[string][]map[uint64]uint64 // by object, event and address
	fields  int                            // number of positions before the costs: 1, or 2 with lines
	addr    uint64
	objects map[string]string // by the number in parentheses
	current []map[uint64]uint64
	skip    bool // the next cost line is of a call
}

func newCallgrindReader(events []string, counts map[string][]map[uint64]uint64) callgrindReader {
	return callgrindReader{events: events, columns: make([]int, len(events)), counts: counts, objects: map[string]string{}}
}

// maxLine bounds a line: C++ template names reach hundreds of kilobytes.
const maxLine = 1 << 24

// eachLine calls take for each line of a file. Where that fails, the error names the line.
func eachLine(name, remedy string, take func(string) error) error {
	f, err := os.Open(name)
	if err != nil {
		return unreadable(name, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	for n := 1; lines.Scan(); n++ {
		if err := take(lines.Text()); err != nil {
			return &InputError{Subject: fmt.Sprintf("%s:%d", name, n), Problem: err.Error(), Remedy: remedy}
		}
	}
	if err := lines.Err(); err != nil {
		return unreadable(name, err)
	}
	return nil
}

// headers may precede the line that declares the positions.
var headers = []string{"version", "creator", "pid", "cmd", "part", "thread", "desc", "event", "summary", "totals"}

func (r *callgrindReader) take(line string) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	if c := line[0]; c >= '0' && c <= '9' || c == '+' || c == '-' || c == '*' {
		return r.cost(line)
	}
	if names, ok := strings.CutPrefix(line, "events:"); ok {
		for i, event := range r.events {
			if r.columns[i] = slices.Index(strings.Fields(names), event); r.columns[i] < 0 {
				return fmt.Errorf("it does not count %s", event)
			}
		}
		return nil
	}
	if r.fields == 0 {
		header, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); {
		case header == "positions" && value == "instr":
			r.fields = 1
		case header == "positions" && value == "instr line":
			r.fields = 2
		case header == "positions":
			return errors.New("it has no addresses of instructions")
		case !slices.Contains(headers, header):
			return errors.New("not a file of callgrind's")
		}
		return nil
	}
	key, value, _ := strings.Cut(line, "=")
	switch key {
	case "ob":
		name, err := r.object(value)
		if err != nil {
			return err
		}
		for len(r.counts[name]) < len(r.events) {
			r.counts[name] = append(r.counts[name], map[uint64]uint64{})
		}
		r.current = r.counts[name]
	case "cob":
		_, err := r.object(value)
		return err
	case "calls":
		r.skip = true
	}
	return nil
}

// object resolves "(1) PATH", "(1)" or "PATH".
func (r *callgrindReader) object(value string) (string, error) {
	if !strings.HasPrefix(value, "(") {
		return value, nil
	}
	number, name, _ := strings.Cut(value, " ")
	if name != "" {
		r.objects[number] = name
		return name, nil
	}
	name, ok := r.objects[number]
	if !ok {
		return "", fmt.Errorf("object %s was not named before", number)
	}
	return name, nil
}

// cost reads an address and its counts. The source line after a jump ("jump=", "jcnd=") holds an address and no
// cost.
func (r *callgrindReader) cost(line string) error {
	if r.fields == 0 {
		return errors.New("costs before the line that declares their positions")
	}
	cells := strings.Fields(line)
	addr, err := position(cells[0], r.addr)
	if err != nil {
		return fmt.Errorf("%q is not an address", cells[0])
	}
	r.addr = addr
	if r.skip {
		r.skip = false
		return nil
	}
	for i, column := range r.columns {
		column += r.fields
		if len(cells) <= column || cells[column] == "0" { // zeros at the end are left out
			continue
		}
		count, err := strconv.ParseUint(cells[column], 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a count", cells[column])
		}
		if r.current == nil {
			return errors.New("a cost before any object is named")
		}
		r.current[i][addr] += count
	}
	return nil
}

// position reads an address, absolute or relative to the previous one.
func position(s string, before uint64) (uint64, error) {
	switch s[0] {
	case '*':
		return before, nil
	case '+':
		d, err := strconv.ParseUint(s[1:], 0, 64)
		return before + d, err
	case '-':
		d, err := strconv.ParseUint(s[1:], 0, 64)
		return before - d, err
	}
	return strconv.ParseUint(s, 0, 64)
}
