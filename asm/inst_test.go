package asm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestUndecodable(t *testing.T) {
	for _, row := range require.Table(t, "undecodable.txt") {
		_, err := Decode(require.Hex(t, row[0]))
		if row[2] == "" {
			require.Equal(t, row[0], nil, err)
			continue
		}
		r, ok := errors.AsType[*verdict.Rejection](err)
		if !ok || r.Reason != verdict.Undecodable || fmt.Sprint(r.Inst.Offset) != row[1] || !strings.Contains(r.Detail, row[2]) {
			t.Errorf("%s: %+v, want offset %s, %q", row[0], err, row[1], row[2])
		}
	}
}

// TestRefuse has the second instruction refused.
func TestRefuse(t *testing.T) {
	for reason, codes := range map[verdict.Reason]string{
		"": "90 f390 8cd8 0fa0 f30faec0 0fae0b 0f1ac0 f30f1efa 0faee8 9d d933 0fae03",
		// cpuid, rdtsc, rdtscp, rdrand, rdseed, rdpid, xgetbv, rdpkru, rdpru, rdpmc
		verdict.Nondeterministic: "0fa2 0f31 0f01f9 0fc7f0 0fc7f8 f30fc7f8 0f01d0 0f01ee 0f01fd 0f33",
		// the last: jumps, calls and returns to another segment, and from an interrupt
		verdict.ControlFlow: "7500 e2fe e3fe ebfe e800000000 ff10 ffe0 c3 f3c3 cc f1 0f0b 48ff2b ff1b 48cb 48cf",
		verdict.Syscall:     "0f05 66480f05 0f34 cd80",
		// the last: str, sysret, vmcall, vmmcall, mwait
		verdict.Privileged: "f4 fa ec f36c 0f20c0 0f23c0 0f0113 0f0103 0f01f8 0f30 480f00c8 480f07 0f01c1 0f01d9 0f01c9",
		// mov ds; pop fs; lss; wrfsbase; wrpkru; xrstor; bndmov, twice; xbegin; ldtilecfg; tpause; umwait; monitorx; mwaitx; enter
		verdict.UnsupportedISA: "8ed8 0fa1 0fb203 f30faed0 0f01ef 0fae2b 660f1ac0 660f1bc8 c7f800000000 c4e2784903 660faef0 f20faef0 0f01fa 0f01fb c8100000",
	} {
		for code := range strings.FieldsSeq(codes) {
			insts := mustDecode(t, "4889c8"+code)
			r := Refuse(insts)
			if r == nil && reason == "" {
				continue
			}
			if r == nil || r.Reason != reason {
				t.Errorf("%s %s: %v, want %q", code, insts[1].Text(), r, reason)
			} else if r.Inst == nil || r.Inst.Index != 1 || r.Inst.Offset != 3 || r.Inst.Hex != code || r.Inst.Text != insts[1].Text() {
				t.Errorf("%s: points at %+v", code, r.Inst)
			}
		}
	}
}

// The registers are those of TestDataflow.
func TestStateOf(t *testing.T) {
	for code, want := range map[string]State{
		"90": {}, "4801c8": {},
		"d9e8":         {X87: true},
		"0f77":         {X87: true, MMX: true},
		"0ffcc1":       {MMX: true},
		"0f58c1":       {Vector: true, MXCSRSticky: true},
		"0f28c1":       {Vector: true},
		"c5f858c1":     {Vector: true, VEX: true, MXCSRSticky: true},
		"c5f877":       {Vector: true, VEX: true},
		"62f17c4858c1": {Vector: true, VEX: true, EVEX: true, VectorBits: 512, MXCSRSticky: true},
		"62b17d486fc1": {Vector: true, VEX: true, EVEX: true, VectorBits: 512, HighVector: true}, // zmm17
		"62f17d4b6fc1": {Vector: true, VEX: true, EVEX: true, VectorBits: 512, Opmask: true},
		"c5fb92c0":     {Opmask: true}, "c5fb93c0": {Opmask: true},
		"0fae13": {Vector: true, MXCSRLoaded: true},
		"fd":     {Direction: true}, "fc": {Direction: true}, "9d": {FlagsLoaded: true},
		"0fc303": {CacheControl: true}, "0fae3b": {CacheControl: true}, "0f180b": {CacheControl: true}, // movnti, clflush, prefetcht0
		"d9e8 0f58c1 4801c8": {X87: true, Vector: true, MXCSRSticky: true},
	} {
		insts := mustDecode(t, code)
		for i := range insts {
			reads, writes := insts[i].Dataflow()
			want.GPRRead |= reads.GPR
			want.GPRWritten |= writes.GPR
		}
		require.Equal(t, code+" "+Text(insts), want, StateOf(insts))
	}
}

// FuzzDecode: no panic; a block is either refused or covered by instructions of 1 to 15 bytes, each of which decodes
// alike on its own.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"488b4308", "f30f1efa", "c5fc5803", "62f17c585843ff", "c4e26990040b", "f348a5", "66666690", "8b0501000000", "c4", "62f1",
	} {
		b, _ := hex.DecodeString(seed)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		insts, err := Decode(block)
		if (err != nil) == (insts != nil) {
			t.Fatalf("%d instructions and error %v", len(insts), err)
		}
		if err != nil {
			var r *verdict.Rejection
			if !errors.As(err, &r) || r.Reason != verdict.Undecodable || r.Inst == nil || r.Inst.Offset >= len(block) {
				t.Fatalf("not a rejection: %v", err)
			}
			return
		}
		offset := 0
		for i := range insts {
			in := &insts[i]
			if in.Offset != offset || len(in.Bytes) < 1 || len(in.Bytes) > maxLength {
				t.Fatalf("instruction %d: %d bytes at %d, expected at %d", i, len(in.Bytes), in.Offset, offset)
			}
			offset += len(in.Bytes)
			var alone Inst
			if err := alone.decode(in.Bytes); err != nil || alone.Text() != in.Text() || len(alone.Bytes) != len(in.Bytes) {
				t.Fatalf("%x: %q, alone %q, %v", in.Bytes, in.Text(), alone.Text(), err)
			}
			if in.RIPDisp+4 > len(in.Bytes) && in.RIPDisp != 0 || in.Text() == "" || strings.Contains(in.Text(), "?") {
				t.Fatalf("%x: %q, displacement at %d", in.Bytes, in.Text(), in.RIPDisp)
			}
			for _, m := range in.Mem {
				if m.Width <= 0 || !m.Read && !m.Write {
					t.Fatalf("%x %s: access %+v", in.Bytes, in.Text(), m)
				}
				m.Addr(&Regs{})
			}
		}
		if offset != len(block) {
			t.Fatalf("%d of %d bytes covered", offset, len(block))
		}
		Refuse(insts)
		StateOf(insts)
	})
}
