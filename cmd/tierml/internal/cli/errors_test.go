package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("broken"), ExitFailed},
		{Usage(errors.New("wrong flag")), ExitUsage},
		{fmt.Errorf("running: %w", Exit(ExitLimit, errors.New("budget used up"))), ExitLimit},
		{fmt.Errorf("running: %w", context.Canceled), ExitInterrupted},
		{errDeclined, ExitFailed},
	} {
		if got := ExitCodeOf(c.err); got != c.want {
			t.Errorf("exit code of %v is %d, want %d", c.err, got, c.want)
		}
	}
}
