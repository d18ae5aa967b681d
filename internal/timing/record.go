package timing

import "github.com/bbprof/bbprof/internal/recording"

// recordedReplicates is the number for each block in a recording, whatever its interval: every layout four times.
const recordedReplicates = 8 * passReplicates

// record records the windows of a child run, except those of the midpoint.
func (s *series) record(got childRun, placements []*placement) {
	if s.Record == nil || len(s.pairs) == 0 {
		return
	}
	b := &s.Record.Blocks[s.number]
	b.Short, b.Long = s.pairs[0].Short.Iterations, s.pairs[0].Long.Iterations
	for _, w := range got.windows {
		p := placements[w.pair]
		if p.Long.Iterations != b.Long {
			continue
		}
		at := recording.Window{Replicate: p.number, Layout: int(LayoutOf(p.place, w.offset)), Switched: got.switches > 0}
		if w.samples() > 0 {
			at.Probe = uint64(w.columns[columnProbe][0])
			for _, chain := range w.chains(len(s.chains)) {
				at.Chains = append(at.Chains, uint64(chain[0]))
			}
			at.Runs = w.raw
		}
		b.Windows = append(b.Windows, at)
	}
}
