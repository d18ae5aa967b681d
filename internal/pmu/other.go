//go:build !linux

package pmu

import "syscall"

// Linux stands for a kernel without hardware counters on other systems.
type Linux struct{}

func (a Attr) Bytes() []byte { return nil }

// All of it fails with ENOSYS.

func (Linux) Open(Attr, int, int) (int, error) { return -1, syscall.ENOSYS }
func (Linux) Control(int, Request) error       { return syscall.ENOSYS }
func (Linux) Read(int, []byte) (int, error)    { return 0, syscall.ENOSYS }
func (Linux) Map(int) ([]byte, error)          { return nil, syscall.ENOSYS }
func (Linux) Unmap([]byte) error               { return syscall.ENOSYS }
func (Linux) Close(int) error                  { return syscall.ENOSYS }
func (Linux) ReadFile(string) ([]byte, error)  { return nil, syscall.ENOSYS }
func (Linux) List(string) ([]string, error)    { return nil, syscall.ENOSYS }

func genericNames() map[string]Attr { return nil }
