package gematria

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/require"
)

var (
	throughput = Throughput{
		Instructions: []Instruction{{0, "add rax, rax", []byte{0x48, 0x01, 0xc0}}, {3, "nop", []byte{0x90}}},
		Source:       "bbprof: Zen 9", Cycles: []float64{1.25, 1.5}}
	annotated = Annotated{Hex: "488b03", Size: 4096, Fill: 0x12345600, Pages: []uint64{0x12345000, 0x7fff_ffff_f000},
		Registers: []Register{{"RBX", 0x12345600}, {"K1", 1<<64 - 1}, {"XMM0", 0}}, LoopRegister: "RCX"}
)

// TestMessages: messages are read back, also without optional parts and with fields unknown to bbprof.
func TestMessages(t *testing.T) {
	for _, want := range []Throughput{throughput, {Instructions: throughput.Instructions[:1]}} {
		got, other := require.Get2(Parse(want.Message()))(t)
		require.Equal(t, "the throughput", &want, got)
		require.Equal(t, "the block", (*Annotated)(nil), other)
	}
	for _, whole := range []Annotated{annotated, {Hex: "90"}} {
		want := Annotated{Hex: whole.Hex, Fill: whole.Fill, Registers: whole.Registers}
		other, got := require.Get2(Parse(whole.Message()))(t)
		require.Equal(t, "the block", &want, got)
		require.Equal(t, "the throughput", (*Throughput)(nil), other)
	}
	message := bytesField(bytesField(nil, annotatedState, bytesField(varintField(nil, stateFill, 7), 15, "?")), annotatedHex, "90")
	if _, got, err := Parse(message); err != nil || got.Fill != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	whole := annotated.Message()
	for name, c := range map[string]struct {
		message []byte
		says    string
	}{
		"cut short":     {whole[:len(whole)-1], "not a Protocol Buffers message"},
		"another field": {varintField(whole, 3, 1), "a field 3"},
		"text":          {[]byte("4801c0"), "not a Protocol Buffers message"},
	} {
		_, _, err := Parse(c.message)
		require.Fails(t, name, err, c.says)
	}
}

// TestRecords: records are read back, and each changed byte is detected.
func TestRecords(t *testing.T) {
	file := AppendRecord(AppendRecord(nil, []byte("first")), nil)
	// The masked checksums of "first" and of its length, computed bit by bit in another language.
	if want := "\x05\x00\x00\x00\x00\x00\x00\x00\xea\xb2\x04\x3efirst\x55\xff\x23\xe5"; !bytes.HasPrefix(file, []byte(want)) {
		t.Errorf("%q, want %q", file, want)
	}
	read := func(file []byte) (all []string, err error) {
		r := NewRecords(bytes.NewReader(file))
		data, err := r.Next()
		for ; err == nil; data, err = r.Next() {
			all = append(all, string(data))
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return all, err
	}
	if got, err := read(file); err != nil || !cmp.Equal(got, []string{"first", ""}) || !StartsRecord(file) {
		t.Errorf("%q, %v", got, err)
	}
	for i := range file {
		changed := bytes.Clone(file)
		changed[i] ^= 0x10
		if got, err := read(changed); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("byte %d: %q, %v", i, got, err)
		}
		if cut, err := read(file[:i]); err == nil && i > 0 && i != len("first")+HeadSize+tailSize {
			t.Errorf("%d bytes: %q", i, cut)
		}
	}
}

// FuzzParse: no message causes a panic, and messages that parse survive a round trip.
func FuzzParse(f *testing.F) {
	f.Add(throughput.Message())
	f.Add(annotated.Message())
	f.Fuzz(func(t *testing.T, message []byte) {
		_, a, err := Parse(message)
		if err != nil || a == nil {
			return
		}
		_, again := require.Get2(Parse(a.Message()))(t)
		require.Equal(t, "the block", a, again)
	})
}
