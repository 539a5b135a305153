package main

import (
	"os"
	"strings"
	"testing"
)

const points = "kind,x,y\na,0,1\nb,5,1\na,1,2\nb,6,2\na,0,3\nb,5,2\na,1,1\nb,6,3\n"

func TestPredict(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("points.csv", points)
	s.write("job.yaml", "name: points\ncloud: none\ntrain: {app: logistic, data: points.csv, clocks: 40, splits: 2, holdout: 0, params: {target: kind, l2: 0.0001}}\n")
	s.write("new.csv", "y,x\n1,5.5\n2,0.5\n")
	s.start("train", "job.yaml", "--into", "model.safetensors").wait(0)
	printed := s.start("predict", "model.safetensors", "new.csv").wait(0)
	lines := strings.Split(printed, "\n")
	if lines[0] != "prediction,probability" || !strings.HasPrefix(lines[1], "b,0.9") || !strings.HasPrefix(lines[2], "a,0.9") || len(lines) != 4 {
		t.Errorf("it prints:\n%s", printed)
	}
	if printed := s.start("predict", "model.safetensors", "points.csv").wait(0); !strings.Contains(printed, "accuracy 1 on 8 examples") {
		t.Errorf("with the classes in the data it prints:\n%s", printed)
	}
	s.write("text.safetensors", "no model")
	if err := os.MkdirAll(s.path("runs", "points-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model, data, want string
	}{
		{"missing.safetensors", "new.csv", "load the model: open missing.safetensors: no such file or directory"},
		{"text.safetensors", "new.csv", "load the model from text.safetensors: "},
		{"model.safetensors", "missing.csv", "reading the data: "},
		{"model.safetensors", "job.yaml", "the format is not known"},
		{"runs/points-1", "new.csv", "load the model: open runs/points-1/model.safetensors: no such file"},
	} {
		if printed := s.start("predict", c.model, c.data).wait(1); !strings.Contains(printed, c.want) {
			t.Errorf("predict %s %s prints\n%s\nwant %q", c.model, c.data, printed, c.want)
		}
	}
	if printed := s.start("predict", "model.safetensors").wait(2); !strings.Contains(printed, "name a model and a data file") {
		t.Errorf("without data it prints:\n%s", printed)
	}
}
