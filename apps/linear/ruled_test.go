package linear

import (
	"math"
	"testing"

	"github.com/tierml/tierml/apps"
)

var ruledNames = methodNames[proximal:]

// The servers' proximal steps lead to the minimum that averaging finds, and leave out the same weights.
func TestServersRulesFindTheMinimum(t *testing.T) {
	for _, name := range []string{"linear", "ridge", "lasso", "robust", "logistic", "svm"} {
		files, dataset := small(t, name, 5)
		params := apps.Params{}
		if kind(t, name).loss.classifies() {
			params["l2"] = 0.01 // with next to none the minimum is far away
		}
		best := train(t, kind(t, name), params, files, dataset, 1000)
		for _, optimizer := range ruledNames {
			params["optimizer"] = optimizer
			m := train(t, kind(t, name), params, files, dataset, 1500)
			if got, want := m.objective(t), best.objective(t); got > want*1.005 || got < want*(1-1e-3) {
				t.Errorf("%s by %s: objective %v, want %v", name, optimizer, got, want)
			}
			if weights, _ := m.program.weights(m.trainer); name == "lasso" && (weights[2] != 0 || weights[0] == 0) {
				t.Errorf("lasso by %s: weights %v: want exactly 0 for the noise alone", optimizer, weights)
			}
		}
	}
}

func TestServersRulesDoNotDependOnSplits(t *testing.T) {
	for _, optimizer := range ruledNames {
		for _, name := range []string{"lasso", "logistic"} {
			var first []float32
			for _, splits := range []int{1, 2, 64} {
				files, dataset := small(t, name, splits)
				m := train(t, kind(t, name), apps.Params{"optimizer": optimizer}, files, dataset, 60)
				weights, _ := m.program.weights(m.trainer)
				if first == nil {
					first = weights
				}
				for i, w := range weights {
					if math.Abs(float64(w-first[i])) > 1e-3 {
						t.Fatalf("%s by %s: weight %d is %v with %d splits, %v with 1", name, optimizer, i, w, splits, first[i])
					}
				}
			}
		}
	}
}

// In place or by splits and servers: the same steps.
func TestRuledDirectTakesTheStepsOfTheServers(t *testing.T) {
	for _, optimizer := range ruledNames {
		for _, name := range []string{"lasso", "svm"} {
			files, dataset := small(t, name, 3)
			params := apps.Params{"optimizer": optimizer, "l2": 0.01}
			m := train(t, kind(t, name), params, files, dataset, 40)
			p, trainer := inPlace(t, kind(t, name), params, files, dataset, 40, 2)
			wanted, wantedBias := m.program.weights(m.trainer)
			weights, bias := p.weights(trainer)
			for i, w := range append(weights, bias) {
				if want := append(wanted, wantedBias)[i]; math.Abs(float64(w-want)) > 1e-3 {
					t.Fatalf("%s by %s: weight %d is %v, want %v", name, optimizer, i, w, want)
				}
			}
		}
	}
}
