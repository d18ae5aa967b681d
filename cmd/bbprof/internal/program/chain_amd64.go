package program

// chain executes turns times 16 dependent adds.
func chain(turns uint64)
