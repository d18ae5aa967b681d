package asm

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestLeastCycles(t *testing.T) {
	for _, row := range require.Table(t, "chains.txt") {
		require.Equal(t, row[2], row[1], fmt.Sprint(LeastCycles(mustDecode(t, row[0]))))
	}
}
