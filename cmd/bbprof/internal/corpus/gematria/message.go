package gematria

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Instruction is a MachineInstructionProto.
type Instruction struct {
	Address uint64 // relative to the block
	Text    string
	Code    []byte
}

// Throughput is a BasicBlockWithThroughputProto with one source. It omits LLVM's form of the instructions
// (canonicalized_instructions).
type Throughput struct {
	Instructions []Instruction
	Source       string    // method: specification
	Cycles       []float64 // per iteration
}

// Register is a RegisterAndValue.
type Register struct {
	Name  string // LLVM's, such as RAX or XMM0
	Value uint64
}

// Annotated is a BlockWithExecutionAnnotations: a block and its initial state.
type Annotated struct {
	Hex          string
	Size, Fill   uint64   // size of each piece of memory, and its fill word
	Pages        []uint64 // where the pieces are mapped
	Registers    []Register
	LoopRegister string // unused by the block, "" if there is none
}

// Field numbers (gematria/proto of Gematria, 2026-02: basic_block.proto, throughput.proto,
// execution_annotation.proto).
const (
	throughputBlock, throughputList  = 1, 2 // BasicBlockWithThroughputProto
	blockInstructions                = 1    // BasicBlockProto
	instAddress, instText, instCode  = 1, 2, 3
	sourceName, sourceCycles         = 1, 2 // ThroughputWithSourceProto
	annotatedState, annotatedHex     = 1, 2 // BlockWithExecutionAnnotations
	stateSize, stateFill, statePages = 2, 3, 4
	stateRegisters, stateLoop        = 5, 6
	registerName, registerValue      = 1, 2
)

func varintField(to []byte, number protowire.Number, v uint64) []byte {
	if v == 0 { // the default, which proto3 omits
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), v)
}

func bytesField[T string | []byte](to []byte, number protowire.Number, v T) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), []byte(v))
}

// Message encodes the block as Protocol Buffers.
func (t Throughput) Message() []byte {
	var block, cycles []byte
	for _, in := range t.Instructions {
		m := varintField(nil, instAddress, in.Address)
		m = bytesField(m, instText, in.Text)
		block = bytesField(block, blockInstructions, bytesField(m, instCode, in.Code))
	}
	for _, c := range t.Cycles {
		cycles = binary.LittleEndian.AppendUint64(cycles, math.Float64bits(c))
	}
	source := bytesField(bytesField(nil, sourceName, t.Source), sourceCycles, cycles)
	return bytesField(bytesField(nil, throughputBlock, block), throughputList, source)
}

func (a Annotated) Message() []byte {
	var pages []byte
	for _, p := range a.Pages {
		pages = binary.AppendUvarint(pages, p)
	}
	state := varintField(varintField(nil, stateSize, a.Size), stateFill, a.Fill)
	if len(pages) > 0 {
		state = bytesField(state, statePages, pages)
	}
	for _, r := range a.Registers {
		state = bytesField(state, stateRegisters, varintField(bytesField(nil, registerName, r.Name), registerValue, r.Value))
	}
	if a.LoopRegister != "" {
		state = bytesField(state, stateLoop, a.LoopRegister)
	}
	return bytesField(bytesField(nil, annotatedState, state), annotatedHex, a.Hex)
}

// message holds the values of each field in order.
type message map[protowire.Number][]value

// value is a field's number, or the bytes of another type.
type value struct {
	n    uint64
	data []byte
}

var errMessage = errors.New("it is not a Protocol Buffers message, or a damaged one")

func parse(text []byte) (message, error) {
	m := message{}
	for len(text) > 0 {
		number, kind, head := protowire.ConsumeTag(text)
		if head < 0 {
			return nil, errMessage
		}
		size := protowire.ConsumeFieldValue(number, kind, text[head:])
		if size < 0 {
			return nil, errMessage
		}
		v := value{data: text[head : head+size]}
		switch kind {
		case protowire.VarintType:
			v.n, _ = protowire.ConsumeVarint(v.data)
			v.data = nil
		case protowire.BytesType:
			v.data, _ = protowire.ConsumeBytes(v.data)
		}
		m[number], text = append(m[number], v), text[head+size:]
	}
	return m, nil
}

// last returns the field's value that counts, zero without one.
func (m message) last(number protowire.Number) (v value) {
	if all := m[number]; len(all) > 0 {
		v = all[len(all)-1]
	}
	return v
}

// Parse reads a message of either kind; the other result is nil.
func Parse(text []byte) (*Throughput, *Annotated, error) {
	m, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	for number := range m {
		if number > 2 {
			return nil, nil, fmt.Errorf("it has a field %d, which neither BasicBlockWithThroughputProto nor BlockWithExecutionAnnotations has", number)
		}
	}
	var second []byte
	if list := m[2]; len(list) > 0 {
		second = list[0].data // of several throughputs, the first
	}
	if len(second) > 0 && isHex(second) { // a message's first byte is not a hexadecimal digit
		a := &Annotated{Hex: string(second)}
		return nil, a, a.state(m.last(annotatedState).data)
	}
	t := &Throughput{}
	return t, nil, errors.Join(t.block(m.last(throughputBlock).data), t.list(second))
}

func isHex(text []byte) bool { return len(bytes.Trim(text, "0123456789abcdefABCDEF")) == 0 }

func (t *Throughput) block(text []byte) error {
	m, err := parse(text)
	for _, v := range m[blockInstructions] {
		in, failed := parse(v.data)
		err = errors.Join(err, failed)
		t.Instructions = append(t.Instructions, Instruction{in.last(instAddress).n, string(in.last(instText).data), in.last(instCode).data})
	}
	return err
}

func (t *Throughput) list(text []byte) error {
	m, err := parse(text)
	t.Source = string(m.last(sourceName).data)
	for _, v := range m[sourceCycles] { // one value per field, or packed
		for data := v.data; len(data) >= 8; data = data[8:] {
			t.Cycles = append(t.Cycles, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
	}
	return err
}

// state reads what of a state bbprof sets: it maps memory where the block accesses it.
func (a *Annotated) state(text []byte) error {
	m, err := parse(text)
	a.Fill = m.last(stateFill).n
	for _, v := range m[stateRegisters] {
		r, failed := parse(v.data)
		err = errors.Join(err, failed)
		a.Registers = append(a.Registers, Register{string(r.last(registerName).data), r.last(registerValue).n})
	}
	return err
}
