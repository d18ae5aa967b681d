package cpu

// Named is the row of a kind of core, the careful one where that is not in the table.
func Named(n Name) Core { return named(n) }
