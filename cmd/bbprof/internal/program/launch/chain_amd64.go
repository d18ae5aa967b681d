package launch

// chain executes 16 dependent adds in each iteration.
func chain(iterations uint64)
