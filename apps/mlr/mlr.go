// Package mlr is multinomial logistic regression, also called softmax regression: the probability of each class is the softmax of a linear
// score. It is a network without hidden layers, and package dnn does the work; this package only names it. Its quality on real data is
// tested in package dnn.
package mlr

import "github.com/tierml/tierml/apps/dnn"

// Kind registers softmax regression.
func Kind() dnn.Kind { return dnn.Softmax() }
