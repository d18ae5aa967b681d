package host

import (
	"fmt"
	"os"
	"slices"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/verdict"
)

// kindOf is the kind of core of a CPU of this machine, empty where all are of one kind.
func kindOf(number int) string { return cpu.Kind(os.ReadFile, number) }

// FastestKind keeps the CPUs of the fastest kind of core, since a result is of one kind.
func FastestKind(cpus []int) []int { return fastestKind(cpus, kindOf) }

func fastestKind(cpus []int, kindOf func(int) string) []int {
	for _, kind := range cpu.Kinds {
		of := slices.DeleteFunc(slices.Clone(cpus), func(number int) bool { return kindOf(number) != kind })
		if len(of) > 0 {
			return of
		}
	}
	return cpus
}

// CheckKinds returns a *verdict.HostError if the CPUs are of several kinds of core.
func CheckKinds(cpus []int) error { return checkKinds(cpus, kindOf) }

func checkKinds(cpus []int, kindOf func(int) string) error {
	for _, number := range cpus {
		first, other := kindOf(cpus[0]), kindOf(number)
		if first != "" && other != "" && first != other { // a CPU that does not exist has no kind, and is refused elsewhere
			return &verdict.HostError{
				Missing: fmt.Sprintf("CPUs %d (%s) and %d (%s) are of two kinds of core, and a result is of one", cpus[0], first, number, other),
				Remedy:  "choose CPUs of one kind (lscpu -e lists them)",
			}
		}
	}
	return nil
}
