//go:build !drill

package server

import "github.com/tierml/tierml/ps"

// withholds is for programs that are built for drills.
func (*Server) withholds(ps.Partition) bool { return false }
