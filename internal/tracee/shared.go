package tracee

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/internal/layout"
)

// Parts with equal permissions on only one side are separated in the file by a page that is never mapped:
// otherwise the kernel would join their mappings when the permissions become equal and split them later, which
// takes longer than the rest of a change of sides.
const (
	hole          = layout.PageSize
	offFrames     = 0
	offLog        = offFrames + layout.FramesSize + hole
	offControl    = offLog + layout.LogSize
	offOps        = offControl + layout.ControlSize
	offSamples    = offOps + layout.OpsSize
	offRestore    = offSamples + layout.SamplesSize
	offCode       = offRestore + layout.RestoreSize + hole
	offDryRunLoop = offCode + layout.CodeSize + hole
	offDryRun     = offDryRunLoop + layout.DryRunLoopSize + hole
	offDryRunCode = offDryRun + layout.DryRunCode - layout.DryRunOps
	sharedSize    = offDryRun + layout.End - layout.DryRunOps
)

// shared is the memory mapped by both monitor and child.
type shared struct {
	fd     int
	mem    []byte
	window uint64 // address of the own region's second mapping, 0 without one
}

// Window returns the address of the own region's second mapping, 0 without one.
func (s *shared) Window() uint64 { return s.window }

// Code is the monitor's view of the code region: byte i is at layout.Code+i in the child.
func (s *shared) Code() []byte { return s.mem[offCode:][:layout.CodeSize] }

// DryRunCode is the same for the code region of dry runs.
func (s *shared) DryRunCode() []byte { return s.mem[offDryRunCode:][:layout.DryRunCodeSize] }

func (s *shared) Log() []byte { return s.mem[offLog:][:layout.LogSize] }

func (s *shared) Frame(i int) []byte { return s.mem[offFrames+i*layout.PageSize:][:layout.PageSize] }

func (s *shared) Samples() []byte { return s.mem[offSamples:offRestore] }

// at returns the memory from an address of the control page, or of a dry run's list.
func (s *shared) at(addr uint64) []byte {
	if addr >= layout.DryRunOps {
		return s.mem[offDryRun+addr-layout.DryRunOps:]
	}
	return s.mem[offControl+addr-layout.Control:]
}

// Word and SetWord access a slot of the control page, or of a dry run, by its address in the child.
func (s *shared) Word(addr uint64) uint64 { return binary.LittleEndian.Uint64(s.at(addr)) }

func (s *shared) SetWord(addr, v uint64) { binary.LittleEndian.PutUint64(s.at(addr), v) }

// SetRestore lists the addresses that prologues restore: at most layout.MaxRestore to the fill word, and at most
// layout.MaxValues to values of their own.
func (s *shared) SetRestore(addrs, values []uint64) {
	list := s.mem[offRestore:offRestore:offCode]
	for i, addr := range addrs {
		list = binary.LittleEndian.AppendUint64(list, addr)
		if values != nil {
			list = binary.LittleEndian.AppendUint64(list, values[i])
		}
	}
	s.SetWord(layout.SlotRestore, uint64(len(addrs)))
}

// Switches returns how often the child was switched out between UsageBefore and UsageAfter: ru_nvcsw and ru_nivcsw
// of getrusage(2). Nothing in a window waits, so the scheduler caused each one.
func (s *shared) Switches() uint64 {
	const nvcsw, nivcsw = 128, 136 // offsets in struct rusage
	var n uint64
	for _, off := range []uint64{nvcsw, nivcsw} {
		n += s.Word(layout.UsageEnd+off) - s.Word(layout.Usage+off)
	}
	return n
}
