package main

// hostCommands are those of this subject.
func hostCommands() []*command {
	return []*command{doctorCommand(), selftestCommand()}
}
