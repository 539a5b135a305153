package planner

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/ps"
)

// A row that fits in no frame is refused before anything is bought, with the figures.
func TestTablesThatNobodyServesAreRefused(t *testing.T) {
	schema := ps.Schema{Tables: []ps.Table{{Name: "w", Rows: 1, Cols: 100_000_000}}, Partitions: 1, Splits: 1}
	_, err := AdmitMemory(&config.Job{Train: config.Train{App: "wide"}}, Fleet{Count: 1}, &schema, []uint64{0})
	if err == nil || !strings.Contains(err.Error(), "a row of 100000000 columns takes 382 MB") {
		t.Errorf("error %v", err)
	}
	schema.Tables[0].Rows, schema.Tables[0].Cols = 100, 1_000_000
	if _, err := AdmitMemory(&config.Job{}, Fleet{Count: 1}, &schema, []uint64{0}); err != nil {
		t.Errorf("rows of a million columns: %v", err)
	}
}
