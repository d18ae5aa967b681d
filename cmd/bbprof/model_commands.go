package main

// modelCommands are those of this subject.
func modelCommands() []*command {
	return []*command{huntCommand(), instructionsCommand(), scoreCommand()}
}
