package prepare

import (
	"reflect"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/config"
)

func TestParamsSuitStaleReads(t *testing.T) {
	written := map[string]any{"l2": 0.1}
	for _, c := range []struct {
		app, cloud, consistency string
		params, want            map[string]any
	}{
		{"lasso", config.CloudLocal, config.SSP, written, map[string]any{"l2": 0.1, "optimizer": "adagrad"}},
		{"svm", config.CloudLocal, config.ASP, nil, map[string]any{"optimizer": "adagrad"}},
		{"svm", config.CloudLocal, config.ASP, map[string]any{"optimizer": "sgd"}, map[string]any{"optimizer": "sgd"}},
		{"lasso", config.CloudLocal, config.BSP, written, written},
		{"lasso", config.CloudNone, config.ASP, written, written}, // one process has no stale reads
		{"mf", config.CloudLocal, config.ASP, written, written},
	} {
		kind, err := all.Registry().Find(c.app)
		if err != nil {
			t.Fatal(err)
		}
		job := &config.Job{Cloud: c.cloud}
		job.Train.Consistency, job.Train.Params = c.consistency, c.params
		got := paramsOf(kind, job)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s with %s on %s: %v, want %v", c.app, c.consistency, c.cloud, got, c.want)
		}
		if _, err := apps.Params(got).Resolve(kind.Params()); err != nil {
			t.Error(err)
		}
	}
	if len(written) != 1 {
		t.Error("what is written has changed")
	}
}
