//go:build !drill

package prepare

// cutSeed is the seed by which examples are held out and dealt to splits.
func cutSeed(seed uint64) uint64 { return seed }
