package mlr

import "testing"

func TestSoftmaxRegressionHasNoHiddenLayers(t *testing.T) {
	if Kind().Name() != "mlr" {
		t.Errorf("its name is %s", Kind().Name())
	}
	for _, p := range Kind().Params() {
		if p.Name == "hidden" {
			t.Error("it takes hidden layers")
		}
	}
}
