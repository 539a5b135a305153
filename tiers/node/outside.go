package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/tiers/node/child"
)

// Outside is what a job's machines know about the program that computes.
type Outside struct {
	Spec    program.Spec `json:"spec"`
	Retries int          `json:"retries,omitempty"`
}

// ModelFolder is where a store keeps the initial model.
func ModelFolder(store string) string { return location.Join(store, "model") }

// beginChild starts an application's program, unless this machine only holds splits.
func (n *node) beginChild(ctx context.Context, app apps.Outside, secrets map[string]string) error {
	text := app.Program()
	if text == nil {
		return nil
	}
	var do Outside
	if err := json.Unmarshal(text, &do); err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir()
	}
	var c *child.Child
	machine, err := n.cfg.NewPrograms(program.Config{
		Spec: do.Spec, Dir: filepath.Join(home, ".tierml", n.user.Job), Log: n.log,
		Report: func(e program.Event) {
			if exited, is := e.(program.Exited); is {
				c.Ended(exited)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the program: %w", err)
	}
	key := string(n.identity.Instance)
	c, err = child.New(child.Config{
		Terms: app.Terms(), Store: ModelFolder(do.Spec.Store), Retries: do.Retries, Log: n.log,
		Start: func(attempt uint64, environment map[string]string) error {
			return machine.Start(program.Start{Attempt: attempt, Run: n.user.Job, Key: key, Ranks: 1, Settings: environment, Secrets: secrets})
		},
	})
	if err != nil {
		machine.Close()
		return err
	}
	app.Attach(c)
	n.child.Store(c)
	n.task(ctx, func() error {
		defer machine.Close()
		if err := c.Run(ctx); err != nil {
			return fmt.Errorf("%w: %w", errUncomputable, err)
		}
		return nil
	})
	return nil
}

// hurry makes the program end the current round early and deliver what it has; and later ones too, if this machine is about to go.
func (n *node) hurry(forGood bool) {
	if c := n.child.Load(); c != nil {
		c.Hurry(forGood)
	}
}
