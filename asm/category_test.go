package asm

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestCategoryOf(t *testing.T) {
	for _, row := range require.Table(t, "categories.txt") {
		require.Equal(t, row[2], Category(row[1]), CategoryOf(mustDecode(t, row[0])))
	}
}

func TestConstant(t *testing.T) {
	for code, want := range map[string]bool{
		"4801d8": false, "83c001": true, "c1e001": true, "d1e0": false, "837c241005": true, "48b80000000000000070": true, "c5f8c6c101": true, "8b442410": false,
	} {
		_, ok := mustDecode(t, code)[0].Constant()
		require.Equal(t, code, want, ok)
	}
}

func TestShape(t *testing.T) {
	for _, row := range require.Table(t, "shapes.txt") {
		require.Equal(t, row[0], row[1], mustDecode(t, row[0])[0].Shape())
	}
}
