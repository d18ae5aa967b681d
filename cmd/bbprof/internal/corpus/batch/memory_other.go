//go:build !linux

package batch

import (
	"errors"
	"os"
)

func inMemory(string) (*os.File, error) { return nil, errors.ErrUnsupported }
