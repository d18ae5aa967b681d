package main

// corpusCommands are those of this subject.
func corpusCommands() []*command {
	return []*command{batchCommand(), convertCommand(), datasetCommand(), extractCommand()}
}
