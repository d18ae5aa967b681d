package profiler

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/simulated"
)

// preparedBlock is a block prepared for timing, and its session.
type preparedBlock struct {
	*mapping.MappedBlock
	s *session
}

// prepared prepares a block in a new session.
func prepared(t *testing.T, opts Options, block []byte) preparedBlock {
	t.Helper()
	start(t, Options{}) // skips where nothing can be measured
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	cpus := require.Get(host.AllowedCPUs())(t)
	opts.CPUs, opts.Budget = cpus, time.Second
	s := require.Get(newSession(t.Context(), opts, simulated.Machine{}))(t)
	t.Cleanup(s.discard)
	return preparedIn(t, s, Block{Code: block})
}

func preparedIn(t *testing.T, s *session, b Block) preparedBlock {
	t.Helper()
	m := require.Get(s.prepareBlock(b))(t)
	return preparedBlock{m, s}
}

// prepareBlock takes a block through the steps before timing.
func (s *session) prepareBlock(b Block) (*mapping.MappedBlock, error) {
	j := s.job(b)
	d, err := decode(b.Code)
	if err != nil {
		return &mapping.MappedBlock{}, err
	}
	r, err := j.chooseCopies(d, s.cpu.FrontEnd)
	if err != nil {
		return &mapping.MappedBlock{}, err
	}
	return s.prepare(j, d, r)
}

// frameWord runs the longer image once more and reads the word that rax points at in the
// paper's state.
func frameWord(t *testing.T, r preparedBlock) uint64 {
	t.Helper()
	r.Refill()
	require.NoError(t, r.Plan.RunOnce(r.Child, r.Long))
	return binary.LittleEndian.Uint64(r.Child.Frame(0)[r.Plan.Init.GPR[0]%layout.PageSize:])
}

// Subnormals read as zero and underflows write zero, unless NoFTZ is set.
func TestSubnormals(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		ftz, not  uint64
	}{
		{"mxcsr read back", "0fae18", 0x9fc0, 0x1f80}, // stmxcsr [rax]
		// movsd xmm0, [rbx+8]; addsd xmm0, xmm0; movsd [rax], xmm0: 0x12345600 is a subnormal
		{"flushed", "f20f104308" + "f20f58c0" + "f20f1100", 0, 2 * 0x12345600},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, mode := range []struct {
				opts Options
				want uint64
			}{{Options{}, c.ftz}, {Options{NoFTZ: true}, c.not}} {
				r := prepared(t, mode.opts, unhex(t, c.hex))
				got := frameWord(t, r)
				if r.Insts[len(r.Insts)-1].Mnemonic == "stmxcsr" {
					got &= 0xffff_ffff
				}
				if got != mode.want {
					t.Errorf("NoFTZ %v: %#x, want %#x", mode.opts.NoFTZ, got, mode.want)
				}
			}
		})
	}
}

// Typical addresses of programs.
const (
	pieCode     = 0x5555_5555_5123
	staticCode  = 0x40_1123
	libraryCode = 0x7fff_f7e5_4321
	heapPage    = 0x5555_5576_8000
	stackPage   = 0x7fff_ffff_d000
)

// somewhere returns a state with random registers, at an address, with pages of random bytes.
func somewhere(rng *rand.Rand, address uint64, pages ...uint64) *initial.Captured {
	c := &initial.Captured{Address: address}
	c.Name, c.Fill = initial.CapturedName, initial.Paper().Fill
	for i := range c.GPR {
		c.GPR[i] = rng.Uint64()
	}
	for i := range c.Opmasks {
		c.Opmasks[i] = rng.Uint64()
	}
	c.FSBase, c.GSBase, c.MXCSR, c.Flags = stackPage+0x100, 0, 0x1fa0|uint32(rng.IntN(4))<<13, 0x202|rng.Uint64()&0x8d5
	for reg := range 32 {
		v := initial.Vector{Reg: reg, Bits: []int{128, 256, 512}[rng.IntN(3)]}
		for i := range v.Bits / 64 {
			v.Words[i] = rng.Uint64()
		}
		c.Vectors = append(c.Vectors, v)
	}
	c.X87 = initial.X87{Control: 0x37f, Status: uint16(rng.IntN(8))<<11 | 0x4500, Tags: byte(rng.Uint32())}
	for i := range c.X87.Registers {
		binary.LittleEndian.PutUint64(c.X87.Registers[i][:], 1<<63|rng.Uint64())
		binary.LittleEndian.PutUint16(c.X87.Registers[i][8:], uint16(rng.Uint32()))
	}
	for _, at := range pages {
		p := initial.Page{Address: at, Writable: true}
		for i := range p.Data {
			p.Data[i] = byte(rng.Uint32())
		}
		c.Pages = append(c.Pages, p)
	}
	return c
}
