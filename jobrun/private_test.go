package jobrun

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/trust"
)

// Files of a run that contain a secret are readable only by their owner, even if the run's directory was opened to others.
func TestOnlyTheOwnerCanReadSecrets(t *testing.T) {
	dir := t.TempDir()
	if _, err := trust.OpenAuthority(dir, trust.LeastLife, time.Now); err != nil {
		t.Fatal(err)
	}
	tokens, err := trust.OpenTokens(dir, "secret", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	if _, err := openState(dir, &config.Job{}); err != nil {
		t.Fatal(err)
	}
	door, err := scaling.Serve(dir, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	for _, name := range []string{trust.AuthorityFile, trust.JoinedFile, StateFile, scaling.File} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
