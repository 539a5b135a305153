//go:build drill

package all

import "github.com/tierml/tierml/apps/tally"

func init() { drills = append(drills, tally.Kind{}) }
