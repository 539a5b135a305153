package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/elasticity"
)

// A recovery overtakes an export, which is in an operation that cannot be interrupted. The next export writes the same file: it begins when
// the first has ended, so the file is the newer one.
func TestExportsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := ""
		s := &script{ends: time.Now().Add(time.Minute), do: map[time.Duration]elasticity.Action{
			2 * time.Second: elasticity.Export{Generation: 1}, 4 * time.Second: elasticity.Export{Generation: 2},
		}}
		s.save = func(ctx context.Context, a elasticity.Export) elasticity.Exported {
			if a.Generation == 1 {
				<-ctx.Done() // reading from a machine that is gone
				time.Sleep(10 * time.Second)
				file = "older"
				return elasticity.Exported{Model: file}
			}
			file = "newer"
			return elasticity.Exported{Model: file}
		}
		play(t, &moody{}, s)
		var last elasticity.Exported
		for _, e := range s.heard {
			if e, ok := e.(elasticity.Exported); ok {
				last = e
			}
		}
		if file != "newer" || last.Generation != 2 || last.Model != "newer" || last.Err != nil {
			t.Errorf("the file is the %s one, and the last answer %+v", file, last)
		}
	})
}
