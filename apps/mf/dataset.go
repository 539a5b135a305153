package mf

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
)

// Ratings describes the whole input once it is cut: the Detail of the Dataset.
type Ratings struct {
	Users int     `json:"users"` // rows of table users
	Items int     `json:"items"` // rows of table items
	Mean  float64 `json:"mean"`  // of the training ratings
	// Scale is the standard deviation of the training ratings (1 if they are all the same). Training is on
	// (rating - Mean) / Scale, so that hyper-parameters do not depend on the scale of the ratings.
	Scale float64 `json:"scale"`
	Low   float64 `json:"low"` // lowest and highest rating: predictions are limited to this range
	High  float64 `json:"high"`
	// MostUsers and MostItems are the most rows of each table for which a split has training ratings; 0 in data of
	// earlier versions.
	MostUsers int `json:"most_users,omitempty"`
	MostItems int `json:"most_items,omitempty"`
}

func (r Ratings) check() error {
	switch {
	case r.Users < 1 || r.Items < 1:
		return fmt.Errorf("%d users and %d items", r.Users, r.Items)
	case !(r.Scale > 0) || math.IsInf(r.Scale, 0):
		return fmt.Errorf("scale %v", r.Scale)
	case math.IsNaN(r.Mean) || math.IsInf(r.Mean, 0):
		return fmt.Errorf("mean %v", r.Mean)
	case !(r.Low <= r.High):
		return fmt.Errorf("ratings from %v to %v", r.Low, r.High)
	}
	return nil
}

// ratingsOf reads the application's own part of a dataset.
func ratingsOf(data apps.Dataset) (Ratings, error) {
	var r Ratings
	if len(data.Detail) == 0 {
		return r, errors.New("the dataset has no details: it was not prepared by this application")
	}
	if err := json.Unmarshal(data.Detail, &r); err != nil {
		return r, fmt.Errorf("the dataset's details: %w", err)
	}
	if err := r.check(); err != nil {
		return r, fmt.Errorf("the dataset's details are impossible: %w", err)
	}
	return r, nil
}
