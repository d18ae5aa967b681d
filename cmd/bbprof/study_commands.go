package main

// studyCommands are those of this subject.
func studyCommands() []*command {
	return []*command{ablateCommand(), boundsCommand(), checkCommand(), compareCommand(), explainCommand(), sweepCommand()}
}
