package host

import (
	"runtime"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestPinThread(t *testing.T) {
	runtime.LockOSThread() // for good: the thread ends with the test, and its binding with it
	all, err := AllowedCPUs()
	if err != nil || len(all) == 0 || !slices.IsSorted(all) {
		t.Fatalf("%v, %v", all, err)
	}
	if len(all) != runtime.NumCPU() {
		t.Errorf("%d CPUs allowed, Go sees %d", len(all), runtime.NumCPU())
	}
	for _, cpu := range all {
		if err := PinThread(cpu); err != nil {
			t.Fatal(err)
		}
		if now, err := AllowedCPUs(); err != nil || !slices.Equal(now, []int{cpu}) {
			t.Errorf("bound to %d: %v, %v", cpu, now, err)
		}
	}
	if err := PinThread(1023); err == nil && !slices.Contains(all, 1023) {
		t.Error("a CPU that is not there can be bound to")
	}
	before, _ := AllowedCPUs()
	if err := PinThread(5000); err == nil { // beyond the set
		t.Error("CPU 5000 can be bound to")
	}
	if now, _ := AllowedCPUs(); !slices.Equal(now, before) {
		t.Errorf("a refused binding left %v", now)
	}
}

// TestCachesOn: each CPU says what it has, and one that may not be used nothing.
func TestCachesOn(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		require.Skip(t, require.CPU, "not an x86-64 machine")
	}
	all, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range all {
		if got := cachesOn(number); !slices.Equal(got, Caches(AskCPUID)) {
			t.Errorf("CPU %d: %+v", number, got)
		}
	}
	if got := cachesOn(5000); got != nil {
		t.Errorf("CPU 5000: %+v", got)
	}
}
