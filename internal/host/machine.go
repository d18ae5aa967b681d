package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Machine is what else than the core affects results, for comparing those of two machines. "" is unknown.
type Machine struct {
	Microcode   string   `json:"microcode,omitempty"` // revision
	Kernel      string   `json:"kernel,omitempty"`    // release
	Hypervisor  string   `json:"hypervisor,omitempty"`
	SMT         string   `json:"smt,omitempty"`         // on, off, forceoff, notsupported, …
	Mitigations []string `json:"mitigations,omitempty"` // in force, each "name: how", by name
}

// ThisMachine describes the machine that this process runs on.
func ThisMachine() Machine { return DescribeMachine(os.DirFS("/"), AskCPUID) }

var microcode = regexp.MustCompile(`(?m)^microcode\s*:\s*(\S+)`)

// DescribeMachine reads /proc and /sys, whose root is files.
func DescribeMachine(files fs.FS, id CPUID) Machine {
	read := func(name string) string {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	const cpus = "sys/devices/system/cpu/"
	m := Machine{Kernel: read("proc/sys/kernel/osrelease"), Hypervisor: hypervisor(id), SMT: read(cpus + "smt/control")}
	if at := microcode.FindStringSubmatch(read("proc/cpuinfo")); at != nil {
		m.Microcode = at[1]
	}
	entries, _ := fs.ReadDir(files, cpus+"vulnerabilities") // sorted
	for _, e := range entries {
		if how, active := strings.CutPrefix(read(cpus+"vulnerabilities/"+e.Name()), "Mitigation: "); active {
			m.Mitigations = append(m.Mitigations, e.Name()+": "+how)
		}
	}
	return m
}

func (m Machine) String() string {
	on := "bare metal"
	if m.Hypervisor != "" {
		on = "under " + m.Hypervisor
	}
	return fmt.Sprintf("microcode %s, Linux %s, %s, SMT %s, mitigations in force: %d", cmp.Or(m.Microcode, "unknown"),
		cmp.Or(m.Kernel, "unknown"), on, cmp.Or(m.SMT, "unknown"), len(m.Mitigations))
}

// Differences lists how two machines differ, each as what m has and what the other has.
func (m Machine) Differences(other Machine) (list []string) {
	for _, c := range []struct{ what, a, b string }{
		{"microcode", m.Microcode, other.Microcode}, {"Linux", m.Kernel, other.Kernel},
		{"hypervisor", m.Hypervisor, other.Hypervisor}, {"SMT", m.SMT, other.SMT},
	} {
		if c.a != c.b {
			list = append(list, fmt.Sprintf("%s %s, there %s", c.what, cmp.Or(c.a, "unknown"), cmp.Or(c.b, "unknown")))
		}
	}
	for _, how := range m.Mitigations {
		if !slices.Contains(other.Mitigations, how) {
			list = append(list, how+", not there")
		}
	}
	for _, how := range other.Mitigations {
		if !slices.Contains(m.Mitigations, how) {
			list = append(list, "there "+how)
		}
	}
	return list
}
