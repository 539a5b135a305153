package scaling

import (
	"path/filepath"
	"testing"

	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/sameuser/sameusertest"
)

// The port of a run that is gone may be another user's by now: its token is not shown there.
func TestAnotherUserIsNoRun(t *testing.T) {
	address, heard := sameusertest.Record(t)
	directory := t.TempDir()
	if err := (door{Address: address, Token: "secret"}).write(filepath.Join(directory, File)); err != nil {
		t.Fatal(err)
	}
	if err := Ask(t.Context(), directory, &pb.Change{}, nil); err == nil {
		t.Error("it was asked")
	}
	if said := heard(); said != "" {
		t.Errorf("it heard %q", said)
	}
}
