package debuggee

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Mapping is a line of proc_pid_maps(5).
type Mapping struct {
	Low, High, Offset uint64
	Writable, Shared  bool
	Name              string // file path or kernel name such as [stack]; "" for anonymous memory
}

func (p *Process) Maps() ([]Mapping, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.ID()))
	if err != nil {
		return nil, fault(err, "reading the program's mappings")
	}
	return parseMaps(string(text)), nil
}

func parseMaps(text string) (all []Mapping) {
	for line := range strings.Lines(text) {
		var m Mapping
		var mode, device string
		var inode uint64
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %d", &m.Low, &m.High, &mode, &m.Offset, &device, &inode); err != nil {
			continue
		}
		m.Writable = len(mode) > 1 && mode[1] == 'w'
		m.Shared = strings.HasSuffix(mode, "s")
		if at := strings.IndexAny(line, "/["); at >= 0 {
			m.Name = strings.TrimSuffix(line[at:], "\n")
		}
		all = append(all, m)
	}
	return all
}

func Find(all []Mapping, addr uint64) *Mapping {
	i, exact := slices.BinarySearchFunc(all, addr, func(m Mapping, addr uint64) int { return cmp.Compare(m.Low, addr) })
	if !exact {
		i--
	}
	if i >= 0 && addr < all[i].High {
		return &all[i]
	}
	return nil
}

// gap returns where so many bytes are free, as near to an address as there is room.
func gap(all []Mapping, near, bytes uint64) (best uint64) {
	far := func(at uint64) uint64 { return max(at, near) - min(at, near) }
	low := uint64(1 << 16) // vm.mmap_min_addr is not more (Documentation/admin-guide/sysctl/vm.rst)
	for _, m := range all {
		if low+bytes <= m.Low {
			for _, at := range []uint64{low, m.Low - bytes} {
				if best == 0 || far(at) < far(best) {
					best = at
				}
			}
		}
		low = m.High
	}
	return best
}
