// Package mlr is multinomial logistic regression, also called softmax regression: the probability of each class is
// the softmax of a linear score. It is a network without hidden layers, and package dnn does the work; this package
// names it. Its bar on real data is in the tests of package dnn.
package mlr

import "github.com/tierml/tierml/apps/dnn"

// Kind is softmax regression for the registry.
func Kind() dnn.Kind { return dnn.Softmax() }
