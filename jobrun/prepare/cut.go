//go:build !drill

package prepare

// cutSeed is by which examples are held out and dealt out to splits.
func cutSeed(seed uint64) uint64 { return seed }
