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

// Message encodes the block as Protocol Buffers.
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

// fields calls f with each field of a message: n is a number's value, data the bytes of others.
func fields(message []byte, f func(number protowire.Number, n uint64, data []byte) error) error {
	for len(message) > 0 {
		number, kind, head := protowire.ConsumeTag(message)
		if head < 0 {
			return errMessage
		}
		size := protowire.ConsumeFieldValue(number, kind, message[head:])
		if size < 0 {
			return errMessage
		}
		n, data := uint64(0), message[head:head+size]
		switch kind {
		case protowire.VarintType:
			n, _ = protowire.ConsumeVarint(data)
			data = nil
		case protowire.BytesType:
			data, _ = protowire.ConsumeBytes(data)
		}
		message = message[head+size:]
		if err := f(number, n, data); err != nil {
			return err
		}
	}
	return nil
}

var errMessage = errors.New("it is not a Protocol Buffers message, or a damaged one")

// Parse reads a message of either kind; the other result is nil.
func Parse(message []byte) (*Throughput, *Annotated, error) {
	var first, second []byte
	err := fields(message, func(number protowire.Number, _ uint64, data []byte) error {
		switch number {
		case 1:
			first = data
		case 2:
			if second == nil { // of several throughputs, take the first
				second = data
			}
		default:
			return fmt.Errorf("it has a field %d, which neither BasicBlockWithThroughputProto nor BlockWithExecutionAnnotations has", number)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if len(second) > 0 && isHex(second) { // a message's first byte is not a hexadecimal digit
		a := &Annotated{Hex: string(second)}
		return nil, a, a.state(first)
	}
	t := &Throughput{}
	return t, nil, errors.Join(t.block(first), t.list(second))
}

func isHex(text []byte) bool { return len(bytes.Trim(text, "0123456789abcdefABCDEF")) == 0 }

func (t *Throughput) block(message []byte) error {
	return fields(message, func(number protowire.Number, _ uint64, data []byte) error {
		if number != blockInstructions {
			return nil
		}
		var in Instruction
		err := fields(data, func(number protowire.Number, n uint64, data []byte) error {
			switch number {
			case instAddress:
				in.Address = n
			case instText:
				in.Text = string(data)
			case instCode:
				in.Code = data
			}
			return nil
		})
		t.Instructions = append(t.Instructions, in)
		return err
	})
}

func (t *Throughput) list(message []byte) error {
	return fields(message, func(number protowire.Number, _ uint64, data []byte) error {
		switch number {
		case sourceName:
			t.Source = string(data)
		case sourceCycles: // one value per field, or packed
			for ; len(data) >= 8; data = data[8:] {
				t.Cycles = append(t.Cycles, math.Float64frombits(binary.LittleEndian.Uint64(data)))
			}
		}
		return nil
	})
}

func (a *Annotated) state(message []byte) error {
	return fields(message, func(number protowire.Number, n uint64, data []byte) error {
		switch number {
		case stateSize:
			a.Size = n
		case stateFill:
			a.Fill = n
		case statePages:
			if data == nil { // one value per field
				a.Pages = append(a.Pages, n)
			}
			for len(data) > 0 {
				page, size := binary.Uvarint(data)
				if size <= 0 {
					return errMessage
				}
				a.Pages, data = append(a.Pages, page), data[size:]
			}
		case stateRegisters:
			var r Register
			err := fields(data, func(number protowire.Number, n uint64, data []byte) error {
				switch number {
				case registerName:
					r.Name = string(data)
				case registerValue:
					r.Value = n
				}
				return nil
			})
			a.Registers = append(a.Registers, r)
			return err
		case stateLoop:
			a.LoopRegister = string(data)
		}
		return nil
	})
}
