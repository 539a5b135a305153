package jobrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tierml/tierml/apps/diloco"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/child"
)

// placeOutside puts what a program on tiers needs where all machines get it, and describes the program to them.
func (r *session) placeOutside(ctx context.Context) error {
	text, err := r.placeWorkdir(ctx)
	if err != nil {
		return err
	}
	outside := node.Outside{Retries: r.cfg.Job.Retries}
	if err := json.Unmarshal(text, &outside.Spec); err != nil {
		return fmt.Errorf("describing the program: %w", err)
	}
	detail, err := diloco.Of(r.cfg.Dataset)
	if err != nil {
		return err
	}
	if detail.Program, err = json.Marshal(outside); err != nil {
		return fmt.Errorf("describing the program: %w", err)
	}
	r.cfg.Dataset, err = detail.Dataset()
	return err
}

// overInitial adds what a model has moved by to what its program began with.
func (r *session) overInitial(ctx context.Context, moved model.Model) (model.Model, error) {
	names, file, err := child.Initial(ctx, node.ModelFolder(r.state.Store()))
	if errors.Is(err, fs.ErrNotExist) {
		return moved, errors.New("no machine has kept the model as it began")
	}
	if err != nil {
		return moved, err
	}
	defer file.Close()
	began, err := model.Read(file)
	if err != nil {
		return moved, fmt.Errorf("the model as it began: %w", err)
	}
	return diloco.Over(began, names, moved.Tensors[0].Float)
}
