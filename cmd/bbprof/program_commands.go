package main

// programCommands are those of this subject.
func programCommands() []*command {
	return []*command{accountCommand(), captureCommand(), countCommand()}
}
