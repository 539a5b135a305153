package labelled

import (
	"encoding/json"
	"strconv"

	"github.com/tierml/tierml/apps/model"
)

// Names of tensors in the model files of tables.
const (
	tensorMean  = "feature_mean"
	tensorScale = "feature_scale"
)

// Names in the metadata.
const (
	metadataBase    = "base"    // "0": indices of LIBSVM count from 0
	metadataColumns = "columns" // of a table without a line of names, as a JSON list
	// metadataDays are the columns whose dates with slashes begin with the day, as a JSON list.
	metadataDays = "day_first"
)

// Describe adds to a model file what is needed to encode examples as the model was trained on: "unit", by which raw values of LIBSVM files
// and pixels are multiplied, or for tables the names of the "features" and the tensors feature_mean and feature_scale, F32 [features]:
// (value - mean) / scale, which leaves words (0 or 1) as they are. The names of a classification's "classes" are also a JSON list.
func (t *Task) Describe(m *model.Model) {
	m.Metadata["target"] = t.Target.Name
	m.Metadata["unit"] = strconv.FormatFloat(t.Data.Unit, 'g', -1, 64)
	if len(t.Classes) > 0 {
		m.Metadata["classes"] = list(t.Classes)
	}
	if !t.Data.Table() {
		if t.Data.ZeroBased {
			m.Metadata[metadataBase] = "0"
		}
		return
	}
	if len(t.Data.Headerless) > 0 {
		m.Metadata[metadataColumns] = list(t.Data.Headerless)
	}
	var days []string
	for _, c := range t.Data.Columns {
		if c.DayFirst {
			days = append(days, c.Name)
		}
	}
	if len(days) > 0 {
		m.Metadata[metadataDays] = list(days)
	}
	m.Metadata["features"] = list(t.Names())
	means, scales := make([]float32, t.Inputs), make([]float32, t.Inputs)
	for i := range scales {
		scales[i] = 1
	}
	for i, offset := range t.offsets {
		if c := t.Data.Columns[i]; offset >= 0 && len(c.Words) == 0 {
			means[offset], scales[offset] = float32(c.Mean), float32(c.Scale)
		}
	}
	m.Tensors = append(m.Tensors,
		model.Tensor{Name: tensorMean, Shape: []int{t.Inputs}, Float: means},
		model.Tensor{Name: tensorScale, Shape: []int{t.Inputs}, Float: scales})
}

func list(words []string) string {
	text, _ := json.Marshal(words) // strings cannot fail
	return string(text)
}
