package recording

// Begin adds a start. A nil Recording records nothing, here and below.
func (r *Recording) Begin(code string, iterations int, nops bool, step float64) {
	if r == nil {
		return
	}
	r.Code, r.Iterations, r.Nops, r.Step = code, iterations, nops, step
	r.Starts = append(r.Starts, Start{})
	r.starting = true
}

// Try adds a try to the start: columns of readings, as many as a Sample has.
func (r *Recording) Try(columns [][]float64) {
	if r == nil || !r.starting {
		return
	}
	try := make([]Sample, len(columns[0]))
	for k, column := range columns {
		for i, ticks := range column {
			try[i][k] = uint64(ticks)
		}
	}
	s := &r.Starts[len(r.Starts)-1]
	s.Tries = append(s.Tries, try)
}

// End completes the start.
func (r *Recording) End(bursts []float64, ticksPerSecond float64) {
	if r == nil {
		return
	}
	s := &r.Starts[len(r.Starts)-1]
	for _, b := range bursts {
		s.Bursts = append(s.Bursts, uint64(b))
	}
	r.TicksPerSecond, r.starting = ticksPerSecond, false
}

// Timing adds a timing of the block that comes next, and gives its number.
func (r *Recording) Timing() int {
	if r == nil {
		return 0
	}
	r.Blocks = append(r.Blocks, r.Next)
	return len(r.Blocks) - 1
}
