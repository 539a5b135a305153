//go:build !drill

package prepare

// cutSeed returns the seed for holding out examples and distributing the others among splits.
func cutSeed(seed uint64) uint64 { return seed }
