package program

import (
	"context"
	"crypto/rand"
	"io"
)

// RunScript runs a bash script until it ends or the context does, and ends everything that it has started. It also ends when this process
// dies.
func RunScript(ctx context.Context, script, dir string, env []string, out io.Writer) (code int, err error) {
	p, err := launch(nil, script, dir, rand.Text(), env, out)
	if err != nil {
		return 0, err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
	}
	p.finish()
	code, _ = p.status()
	return code, nil
}
