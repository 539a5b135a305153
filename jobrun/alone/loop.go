package alone

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/stopping"
)

// trainLoop runs clocks until it is time to stop.
type trainLoop struct {
	rules    stopping.Rules
	watch    stopping.Watch
	trend    stopping.Trend
	job      *config.Job
	program  apps.Program
	trainer  trainer
	out      io.Writer
	bar      *progress.Bar // of clocks
	examples int64         // since the last line
}

// run returns the reason why it stopped.
func (l *trainLoop) run(ctx context.Context) (why string, err error) {
	start := time.Now()
	lap := start
	for clock := 1; clock <= l.job.Train.Clocks; clock++ {
		if ctx.Err() != nil {
			return "interrupted", nil
		}
		if why := l.rules.Elapsed(time.Since(start)); why != "" {
			return why, nil
		}
		evaluate := clock%l.job.Train.EvaluateEvery == 0 || clock == 1
		stats, err := l.trainer.Step(evaluate)
		if err != nil {
			return "", fmt.Errorf("training: %w", err)
		}
		l.examples += stats.Examples
		l.bar.Add(1)
		if evaluate {
			now := time.Now()
			if why := l.measured(clock, stats, now.Sub(start), now.Sub(lap)); why != "" {
				return why, nil
			}
			lap, l.examples = now, 0
		}
		if c, can := l.trainer.Tables().(apps.Converging); can && c.Converged() != "" {
			return c.Converged(), nil
		}
	}
	if share, more := l.trend.Gained(); more {
		fmt.Fprintf(l.out, "The last quarter of the clocks reduced the %s by %.2g %%: more clocks would probably reduce it further\n", l.program.ScoreName(), 100*share)
	}
	return "all clocks are done", nil
}

// measured prints a line of progress and applies the stopping rules.
func (l *trainLoop) measured(clock int, stats apps.Stats, elapsed, lap time.Duration) (why string) {
	name := l.program.ScoreName()
	line := fmt.Sprintf("%8.1fs  clock %*d of %d", elapsed.Seconds(), len(strconv.Itoa(l.job.Train.Clocks)), clock, l.job.Train.Clocks)
	watched := math.NaN()
	if stats.Examples > 0 {
		watched = l.program.Score(stats.Loss, stats.Examples)
		line += fmt.Sprintf("  train %s %-8.5g", name, watched)
	}
	if stats.TestCount > 0 {
		watched = l.program.Score(stats.TestLoss, stats.TestCount)
		line += fmt.Sprintf("  test %s %-8.5g", name, watched)
	}
	if lap > 0 {
		line += fmt.Sprintf("  %.3g examples/s", float64(l.examples)/lap.Seconds())
	}
	fmt.Fprintln(l.out, line)
	if clock%l.job.Train.EvaluateEvery != 0 { // the first clock is measured for display, not for the rules
		return ""
	}
	l.trend.Measured(int64(clock), watched)
	return l.watch.Measured(l.rules, int64(clock), name, watched)
}
