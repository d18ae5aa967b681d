package profiler

import (
	"context"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/mapping"
)

// Accesses lists what copies of a block access that start from a captured state, in program order: of as many copies
// as stay within the state, or as tell what the rest access. Nothing is timed. The error is a
// *verdict.Rejection where copies in a row cannot run, else that of Profile or a failure of bbprof.
func (p *Executor) Accesses(ctx context.Context, code []byte, c *initial.Captured) (list []asm.Access, err error) {
	err = p.inState(ctx, code, c, func(s *session, b Block) (err error) {
		list, err = s.accesses(s.job(b))
		return err
	})
	return list, err
}

func (s *session) accesses(j job) ([]asm.Access, error) {
	d, err := decode(j.Code)
	if err != nil {
		return nil, err
	}
	r, err := j.repeat(d, s.cpu.FrontEnd)
	if err != nil {
		return nil, err
	}
	task := s.task(j, d, r)
	task.Judge = func(m *mapping.Mapped) (mapping.Judged, error) { return mapping.Judged{}, nil }
	m, err := task.Replayed(j.Setup.Captured)
	if err != nil {
		return nil, err
	}
	return m.Trace.Accesses, nil
}
