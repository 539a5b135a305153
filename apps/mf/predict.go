package mf

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/model"
)

// Predict implements apps.Predictor: the rating of each line's user and item, empty if the model does not know one.
func (Kind) Predict(m model.Model, in apps.Input) (apps.Predictions, error) {
	p, err := NewPredictor(m)
	if err != nil {
		return apps.Predictions{}, err
	}
	pairs, err := input.ReadPairs(in.Name, in.Data, in.MaxBadLines)
	if err != nil {
		return apps.Predictions{}, err
	}
	out := apps.Predictions{Columns: []string{"user", "item", "prediction"}, Rows: len(pairs.Ratings), BadLines: pairs.BadLines}
	out.Row = func(i int, cells []string) []string {
		r := pairs.Ratings[i]
		user, item := pairs.Name(r.User), pairs.Name(r.Item)
		cells = append(cells, user, item)
		if predicted, known := p.PredictNamed(user, item); known {
			return append(cells, strconv.FormatFloat(predicted, 'g', 9, 64))
		}
		return append(cells, "")
	}
	if pairs.Rated {
		out.Figure = p.figure(pairs)
	}
	return out, nil
}

func (p *Predictor) figure(pairs input.Pairs) string {
	var squares float64
	known := 0
	for _, r := range pairs.Ratings {
		if predicted, ok := p.PredictNamed(pairs.Name(r.User), pairs.Name(r.Item)); ok {
			d := predicted - float64(r.Value)
			squares += float64(d * d)
			known++
		}
	}
	if known == 0 {
		return ""
	}
	return fmt.Sprintf("RMSE %.6g on %d of %d ratings, whose user and item the model knows", math.Sqrt(squares/float64(known)), known, len(pairs.Ratings))
}
