//go:build drill

package prepare

// cutSeed is the same for all seeds in programs that are built for drills: runs of several seeds are judged by the same
// held-out examples then. On real data, others would make more of a difference than what is looked for.
func cutSeed(uint64) uint64 { return 1 }
