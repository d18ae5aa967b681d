package resultfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/gematria"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
)

// exportFormat describes the format of another tool, which holds accepted blocks alone.
type exportFormat struct {
	block               func(*export) error // appends a block to out
	needs               []string            // columns besides hex and cycles
	start, between, end string
}

// export writes a file of such a format.
type export struct {
	*exportFormat
	at            Positions
	n, lines      int    // so far
	core, started string // of the run, once a row states them

	// The block to export:
	cells  []string
	cycles float64
	out    []byte
}

func (e *export) cell(name string) string {
	return e.at.Cell(e.cells, name)
}

// over fails if a column that the format needs is missing.
func (f *exportFormat) over(s Schema) (*export, error) {
	e := &export{exportFormat: f, at: s.Positions()}
	for _, name := range append(slices.Clone(f.needs), "hex", "cycles") {
		if _, ok := e.at[name]; !ok && name == "mapping" {
			return nil, errors.New("there is no column mapping, with the pages of each block; measure with bbprof batch -mapping")
		} else if !ok {
			return nil, fmt.Errorf("there is no column %s among %q", name, s.Names())
		}
	}
	return e, nil
}

func (e *export) append(line []byte, cells []string) (_ []byte, err error) {
	e.cells = cells
	if header := e.cell(runHeader); header != "" && e.core == "" {
		run, _ := ParseRun(header) // an unreadable one names no core
		e.core, e.started = string(run.Host.Microarchitecture), run.Started
	}
	text := e.cell("cycles")
	if text == "" {
		return line, nil
	}
	if e.cycles, err = strconv.ParseFloat(text, 64); err != nil {
		return nil, fmt.Errorf("cycles are %q, which is not a number", text)
	}
	e.out = append(line, e.opening()...)
	if err := e.block(e); err != nil {
		return nil, fmt.Errorf("block %.100s: %w", e.cell("hex"), err)
	}
	e.n++
	return e.out, nil
}

func (e *export) opening() string {
	if e.n > 0 {
		return e.between
	}
	return strings.NewReplacer("CORE", e.core, "STARTED", strings.Replace(e.started, "Z", "+00:00", 1)).Replace(e.start)
}

func (e *export) footer() []byte {
	if e.n == 0 {
		return []byte(e.opening() + e.end)
	}
	return []byte(e.end)
}

func bhive(b *export) error {
	b.out = appendCSV(b.out, []string{b.cell("hex"), strconv.FormatFloat(100*b.cycles, 'f', cycleDecimals-2, 64)})
	return nil
}

func ithemal(b *export) error {
	b.out = append(append(b.out, b.cell("hex")...), '\n')
	return nil
}

const osacaStart = ".intel_syntax noprefix\n# OSACA takes the first block, or the one at --lines\n"

// osaca marks each block as OSACA's documentation says (Marker instructions). OSACA analyses the first block of
// a file, or the given lines.
func osaca(b *export) error {
	insts, err := asm.DecodeHex(b.cell("hex"))
	if err != nil {
		return err
	}
	if b.n == 0 {
		b.lines = strings.Count(osacaStart, "\n")
	}
	first := b.lines + 3
	b.lines = first + len(insts)
	b.out = fmt.Appendf(b.out, "# %s %s cycles --lines %d-%d\n# OSACA-BEGIN\n", b.cell("hex"), b.cell("cycles"), first, b.lines-1)
	b.listing(insts)
	b.out = append(b.out, "# OSACA-END\n"...)
	return nil
}

func (b *export) listing(insts []asm.Inst) {
	for i := range insts {
		b.out = append(append(b.out, insts[i].Text()...), '\n')
	}
}

const anicaStart = `{"series_date":"STARTED","source_computer":"CORE","measurements":[` + "\n"

// anica writes the input of AnICA's MeasurementDB.add_series (iwho/predictors/measurementdb.py of
// cdl-saarland/iwho).
func anica(b *export) error {
	b.out = fmt.Appendf(b.out, `{"input":%q,"predictor_runs":[{"predictor":%q,"result":%v,"remark":null}]}`, b.cell("hex"), "bbprof."+b.core, b.cycles)
	return nil
}

func gematriaThroughput(b *export) error {
	insts, err := asm.DecodeHex(b.cell("hex"))
	if err != nil {
		return err
	}
	t := gematria.Throughput{Source: "bbprof: " + b.core, Cycles: []float64{b.cycles}}
	for i := range insts {
		t.Instructions = append(t.Instructions, gematria.Instruction{Address: uint64(insts[i].Offset), Text: insts[i].Text(), Code: insts[i].Bytes})
	}
	b.out = gematria.AppendRecord(b.out, t.Message())
	return nil
}

var stateColumns = []string{"init", "set", "mapping"}

func gematriaState(b *export) error {
	insts, err := asm.DecodeHex(b.cell("hex"))
	if err != nil {
		return err
	}
	state, err := b.state()
	if err != nil {
		return err
	}
	a, err := b.annotated(insts, state)
	b.out = gematria.AppendRecord(b.out, a.Message())
	return err
}

func (b *export) state() (state initial.State, err error) {
	states := initial.States()
	i := slices.IndexFunc(states, func(s initial.State) bool { return s.Name == b.cell("init") })
	if i < 0 {
		return state, fmt.Errorf("its initial state is %q, which this bbprof does not know", b.cell("init"))
	}
	if b.cell("set") == "" {
		return states[i], nil
	}
	set, err := initial.ParseSet(b.cell("set"))
	return set.Over(states[i]), err
}

func (b *export) annotated(insts []asm.Inst, state initial.State) (a gematria.Annotated, err error) {
	a = gematria.Annotated{Hex: b.cell("hex"), Size: layout.PageSize, Fill: state.Fill}
	for _, text := range strings.Fields(b.cell("mapping")) {
		page, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return a, fmt.Errorf("its mapping is %q, which is not a list of addresses", b.cell("mapping"))
		}
		a.Pages = append(a.Pages, page)
	}
	a.Registers, a.LoopRegister, err = registersOf(insts, state)
	return a, err
}

// registersOf returns LLVM's names of the registers whose initial value a block reads, and of the first unused
// one, in Gematria's order of loop counters, never rsp.
func registersOf(insts []asm.Inst, state initial.State) (list []gematria.Register, free string, err error) {
	var reads, all, made asm.Values // made: written by the block before it is read
	var text strings.Builder
	segments := map[asm.Segment]bool{}
	for i := range insts {
		r, w := insts[i].Dataflow()
		reads, made, all = reads.Or(r.Without(made)), made.Or(w), all.Or(r).Or(w)
		for _, m := range insts[i].Mem {
			segments[m.Segment] = true
		}
		text.WriteString(insts[i].Text() + "\n")
	}
	add := func(name string, value uint64) {
		list = append(list, gematria.Register{Name: strings.ToUpper(name), Value: value})
	}
	for n, value := range state.GPR {
		if reads.GPR>>n&1 != 0 {
			add(asm.Reg(n).String(), value)
		}
	}
	wide := wideRegister.FindAllString(text.String(), -1)
	for n := range 32 {
		if reads.Vector>>n&1 == 0 {
			continue
		}
		var v initial.Vector // zero, unless it is set
		if i := slices.IndexFunc(state.Vectors, func(v initial.Vector) bool { return v.Reg == n }); i >= 0 {
			v = state.Vectors[i]
		}
		if slices.Max(v.Words[1:]) > 0 {
			return nil, "", fmt.Errorf("%s is set to more than the 64 bits that Gematria's annotations hold", v.Name())
		}
		add(widest(wide, n), v.Words[0])
	}
	for n, value := range state.Opmasks {
		if reads.Opmask>>n&1 != 0 {
			add(fmt.Sprint("k", n), value)
		}
	}
	if reads.Flags != 0 {
		add("eflags", state.Flags)
	}
	if all.Vector != 0 {
		add("mxcsr", uint64(state.MXCSR))
	}
	if segments[asm.FS] {
		add("fs", state.FSBase)
	}
	if segments[asm.GS] {
		add("gs", state.GSBase)
	}
	for _, r := range []asm.Reg{asm.RAX, asm.RCX, asm.RDX, asm.RSI, asm.RDI, asm.R8, asm.R9, asm.R10, asm.R11, asm.RBX,
		asm.R14, asm.R15, asm.R12, asm.R13, asm.RBP} {
		if all.GPR>>r&1 == 0 {
			return list, strings.ToUpper(r.String()), nil
		}
	}
	return list, "", nil
}

var wideRegister = regexp.MustCompile(`[yz]mm\d+`)

// widest names a vector register in the width that a block uses. wide are the names of its registers beyond xmm.
func widest(wide []string, n int) string {
	for _, kind := range []string{"zmm", "ymm"} {
		if name := kind + strconv.Itoa(n); slices.Contains(wide, name) {
			return name
		}
	}
	return "xmm" + strconv.Itoa(n)
}
