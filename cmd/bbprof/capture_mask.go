package main

import (
	"context"
	"errors"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/capture"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// masker masks visits; nil leaves them as they are.
type masker struct {
	*profiler.Executor
	lost        map[string]int // visits that are not written, by the reason
	kept, bytes int            // of all pages
}

func (c *capturingStates) masking() (*masker, error) {
	if !c.mask {
		return nil, nil
	}
	e, err := profiler.NewExecutor(profiler.Options{CPUs: c.options.CPUs})
	return &masker{Executor: e, lost: map[string]int{}}, err
}

func (m *masker) close() {
	if m != nil {
		m.Close()
	}
}

// mask masks a visit. A visit that would access other addresses then is not to be written, and why says so.
func (m *masker) mask(ctx context.Context, code []byte, v *capture.Visit) (why string, err error) {
	if m == nil {
		return "", nil
	}
	insts, err := asm.Decode(code)
	if err != nil {
		return "", err
	}
	accesses, traced := v.Accesses, true
	list, err := m.Accesses(ctx, code, &v.Before)
	rejection := (*verdict.Rejection)(nil)
	switch {
	case err == nil:
		accesses = list
	case errors.As(err, &rejection): // it cannot be measured either
		traced = false
	default:
		return "", err
	}
	masked := capture.Mask(insts, accesses, &v.Before)
	if traced {
		list, err = m.Accesses(ctx, code, &masked)
		if err != nil && !errors.As(err, &rejection) {
			return "", err
		}
		if err != nil || !slices.Equal(list, accesses) {
			why = "masked, the block would access other addresses"
			m.lost[why]++
			return why, nil
		}
	}
	for i := range masked.Pages {
		for _, b := range masked.Pages[i].Data {
			m.bytes++
			if b != capture.MaskByte {
				m.kept++
			}
		}
	}
	v.Before, v.After = masked, initial.Captured{Address: v.After.Address}
	return "", nil
}
