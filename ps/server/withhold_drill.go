//go:build drill

package server

import (
	"os"
	"sync/atomic"

	"github.com/tierml/tierml/ps"
)

// withhold is a file that a drill creates in its processes' working directory. While it exists, an owner delivers the cuts of one partition
// only, so that however fast it is, it dies in the middle of a delivery.
const withhold = "withhold"

var delivering atomic.Int64 // the partition, from 1; 0 = none yet

func (s *Server) withholds(p ps.Partition) bool {
	if _, err := os.Stat(withhold); err != nil {
		return false
	}
	if delivering.CompareAndSwap(0, int64(p)+1) {
		s.log.Info("drill: this partition alone is delivered", "partition", p)
	}
	if delivering.Load() == int64(p)+1 {
		return false
	}
	s.log.Info("drill: withheld", "partition", p)
	return true
}
