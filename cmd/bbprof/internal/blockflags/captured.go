package blockflags

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/profiler"
)

// StartState makes a block start from the captured state FILE#N, and takes that visit's block if none is given yet.
func StartState(b *profiler.Block, name string) error {
	path, number, ok := CutState(name)
	if !ok {
		return cli.BadUsage("-state %s: write FILE#N, the Nth state of a file of bbprof capture; bbprof capture -index FILE lists them", name)
	}
	file, err := states.Open(path)
	if err != nil {
		return cli.BadUsage("-state: %w", err)
	}
	defer file.Close()
	visit, err := file.At(number)
	if err != nil {
		return cli.BadUsage("-state: %w", err)
	}
	if b.Code == nil {
		if b.Code, err = asm.ParseHex(visit.Hex, profiler.MaxBlock); err != nil {
			return cli.BadUsage("-state %s: %w", name, err)
		}
	}
	b.Setup.Captured = &visit.Before
	b.Setup.Visit = fmt.Sprintf("%s: visit %d of %d to %s in %s", name, visit.Visit, visit.Visits, visit.Function, strings.Join(file.About().Program, " "))
	return nil
}

func CutState(name string) (file string, number int, ok bool) {
	at := strings.LastIndexByte(name, '#')
	if at < 0 {
		return name, 0, false
	}
	number, err := strconv.Atoi(name[at+1:])
	return name[:at], number, err == nil && at > 0
}
