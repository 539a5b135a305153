// Package labelled reads labelled examples for linear models and networks: it reads LIBSVM files, IDX images (the MNIST format) and
// CSV tables, cuts them into split files, and gives each split's examples as sparse rows of numbers with a target.
//
// Examples are put into a random order once, and an example's rank in it decides everything: whether it is held
// out, which split it is in, and in which batch of a pass it is trained. So the examples of a clock, taken over all
// splits, are the same for any number of splits.
//
// Splits do not depend on hyper-parameters, except that rows without a target that is named are left out: a table's columns are stored
// unchanged, and the target is chosen later. The package does not know what is learned from its examples.
package labelled

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
)

// Data describes the whole input after splitting: the Detail of the Dataset.
type Data struct {
	// Features of a LIBSVM file (the largest index) or of an image (its pixels); 0 for a table.
	Features int `json:"features,omitempty"`
	// ZeroBased means that a LIBSVM file counts indices from 0.
	ZeroBased bool `json:"zero_based,omitempty"`
	// Headerless are the names of all columns of a table whose first line lacks them.
	Headerless []string `json:"headerless,omitempty"`
	// Entries is the number of non-zero features over all training examples; 0 for a table.
	Entries int64 `json:"entries,omitempty"`
	// Columns of a table. Other files have one: the label.
	Columns []Column `json:"columns"`
	// Unit is the factor for stored feature values: 1/255 for images, else 1.
	Unit float64 `json:"unit"`
	// Curvature approximates the largest eigenvalue of X'X/n, where X has the encoded features of the n training examples and a
	// constant 1: it bounds the curvature of a linear model's loss.
	Curvature float64 `json:"curvature"`
}

// Column describes a table's column, or the label. Mean and Scale are of the training examples.
type Column struct {
	Name string `json:"name"`
	// Words are a word column's words, sorted. A value is an index into the list.
	Words []string `json:"words,omitempty"`
	// DayFirst means that dates such as 3/4/2024 begin with the day.
	DayFirst bool `json:"day_first,omitempty"`
	// Values are the different numbers of a column of numbers, ascending, if there are at most MaxClasses.
	Values []float64 `json:"values,omitempty"`
	// Counts are how many training examples have each of Words or Values.
	Counts []int64 `json:"counts,omitempty"`
	Mean   float64 `json:"mean"`
	Scale  float64 `json:"scale"` // standard deviation; 1 if all values are the same
	// Present is how many training examples have a value here, and Missing how many examples have none.
	Present int64 `json:"present"`
	Missing int64 `json:"missing,omitempty"`
}

// MaxClasses is the most classes that a column of numbers can encode.
const MaxClasses = 1000

// Table reports whether the input was a table, any of whose columns can be the target.
func (d Data) Table() bool { return d.Features == 0 }

func (c Column) check() error {
	if !(c.Scale > 0) || math.IsInf(c.Scale, 0) || math.IsNaN(c.Mean) || math.IsInf(c.Mean, 0) {
		return fmt.Errorf("column %q has mean %v and scale %v", c.Name, c.Mean, c.Scale)
	}
	return nil
}

func (d Data) check() error {
	if len(d.Columns) == 0 || !d.Table() && len(d.Columns) != 1 {
		return fmt.Errorf("%d features and %d columns", d.Features, len(d.Columns))
	}
	for _, c := range d.Columns {
		if err := c.check(); err != nil {
			return err
		}
	}
	if !(d.Curvature >= 0) || math.IsInf(d.Curvature, 0) || !(d.Unit > 0) || d.Features < 0 {
		return fmt.Errorf("curvature %v, unit %v, %d features", d.Curvature, d.Unit, d.Features)
	}
	return nil
}

// dataOf decodes the application's own part of a dataset.
func dataOf(dataset apps.Dataset) (Data, error) {
	var d Data
	if len(dataset.Detail) == 0 {
		return d, errors.New("the dataset has no details: it was not prepared by this application")
	}
	if err := json.Unmarshal(dataset.Detail, &d); err != nil {
		return d, fmt.Errorf("the dataset's details: %w", err)
	}
	if err := d.check(); err != nil {
		return d, fmt.Errorf("the dataset's details are impossible: %w", err)
	}
	if dataset.Splits < 1 || dataset.Examples < 1 {
		return d, fmt.Errorf("the dataset has %d splits and %d examples", dataset.Splits, dataset.Examples)
	}
	return d, nil
}
