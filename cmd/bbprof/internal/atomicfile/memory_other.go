//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

func inMemory(string) (*os.File, error) { return nil, errors.ErrUnsupported }
