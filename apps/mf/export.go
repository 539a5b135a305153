package mf

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/ps"
)

// Names in the model file. A prediction is
//
//	clamp(mean + scale * (users[u, rank] + items[i, rank] + users[u, :rank] . items[i, :rank]), low, high)
//
// with the row numbers u and i found in user_ids and item_ids, and mean, scale, low, high and rank in the
// metadata.
const (
	tensorUsers   = "users"    // F32 [users, rank+1]: factors, then bias
	tensorItems   = "items"    // F32 [items, rank+1]
	tensorUserIDs = "user_ids" // I64 [users]: the input's id of each row, ascending
	tensorItemIDs = "item_ids" // I64 [items]
	// If the input's ids are texts, these lists in the metadata contain them, as JSON; user_ids and item_ids are then
	// the row numbers.
	metadataUsers = "user_names"
	metadataItems = "item_names"
)

// Evaluate measures all held-out ratings with finished tables.
func (p *Program) Evaluate(tables apps.Rows, open apps.Open) (apps.Stats, error) {
	var total apps.Stats
	if d, here := tables.(*direct); here {
		total.TestCount, total.TestLoss = d.evaluate()
		return total, nil
	}
	err := p.eachSplit(open, func(data *splitData) {
		data.train = nil
		s := newSplit(p, data, 0)
		s.bind(&s.test, tables)
		count, loss := s.evaluate()
		total.TestCount += count
		total.TestLoss += loss
	})
	if err != nil {
		return apps.Stats{}, fmt.Errorf("evaluate: %w", err)
	}
	return total, nil
}

// Export returns the model file's contents from finished tables.
func (p *Program) Export(tables apps.Rows, open apps.Open) (model.Model, error) {
	ids := p.newIDs()
	if d, here := tables.(*direct); here {
		ids = d.ids
	} else if err := p.eachSplit(open, ids.add); err != nil {
		return model.Model{}, fmt.Errorf("export: %w", err)
	}
	m := model.Model{
		Metadata: map[string]string{
			"app":   p.Name(),
			"rank":  strconv.Itoa(p.rank),
			"mean":  exact(p.ratings.Mean),
			"scale": exact(p.ratings.Scale),
			"low":   exact(p.ratings.Low),
			"high":  exact(p.ratings.High),
		},
		Tensors: []model.Tensor{
			p.tensor(tables, tableUsers, tensorUsers),
			p.tensor(tables, tableItems, tensorItems),
			{Name: tensorUserIDs, Shape: []int{len(ids.users)}, Int: ids.users},
			{Name: tensorItemIDs, Shape: []int{len(ids.items)}, Int: ids.items},
		},
	}
	if ids.named {
		for _, side := range []struct {
			name  string
			names []string
			rows  []int64
		}{{metadataUsers, ids.userNames, ids.users}, {metadataItems, ids.itemNames, ids.items}} {
			text, err := json.Marshal(side.names)
			if err != nil {
				return model.Model{}, fmt.Errorf("export: %w", err)
			}
			m.Metadata[side.name] = string(text)
			for row := range side.rows {
				side.rows[row] = int64(row)
			}
		}
	}
	return m, nil
}

// ids are the ids of the rows.
type ids struct {
	users, items         []int64
	userNames, itemNames []string
	named                bool
}

func (p *Program) newIDs() *ids {
	return &ids{users: make([]int64, p.ratings.Users), items: make([]int64, p.ratings.Items)}
}

func (i *ids) add(data *splitData) {
	if data.named && !i.named {
		i.named, i.userNames, i.itemNames = true, make([]string, len(i.users)), make([]string, len(i.items))
	}
	for _, u := range data.users {
		if i.users[u.row] = u.id; i.named {
			i.userNames[u.row] = u.name
		}
	}
	for _, item := range data.items {
		if i.items[item.row] = item.id; i.named {
			i.itemNames[item.row] = item.name
		}
	}
}

// exact formats a number so that it parses to the same value.
func exact(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func (p *Program) tensor(tables apps.Rows, id ps.TableID, name string) model.Tensor {
	table := p.Tables()[id]
	values := make([]float32, 0, int(table.Rows)*table.Cols)
	for row := range table.Rows {
		values = append(values, tables.Row(ps.Key{Table: id, Row: ps.RowID(row)})...)
	}
	return model.Tensor{Name: name, Shape: []int{int(table.Rows), table.Cols}, Float: values}
}

// Predictor predicts ratings from a model file.
type Predictor struct {
	ratings          Ratings
	rank             int
	users, items     []float32
	userIDs, itemIDs []int64
	byUser, byItem   map[string]int // rows by name, if ids are texts
}

// NewPredictor returns a predictor for the result of Export, possibly read from a file.
func NewPredictor(m model.Model) (*Predictor, error) {
	if app := m.Metadata["app"]; app != (Kind{}).Name() {
		return nil, fmt.Errorf("the model was made by %q, not by matrix factorisation", app)
	}
	var p Predictor
	var err error
	if p.rank, err = strconv.Atoi(m.Metadata["rank"]); err != nil || p.rank < 1 {
		return nil, fmt.Errorf("the model's rank %q is not a number from 1", m.Metadata["rank"])
	}
	r := &p.ratings
	for name, to := range map[string]*float64{"mean": &r.Mean, "scale": &r.Scale, "low": &r.Low, "high": &r.High} {
		if *to, err = strconv.ParseFloat(m.Metadata[name], 64); err != nil {
			return nil, fmt.Errorf("the model's %s: %w", name, err)
		}
	}
	p.users, p.userIDs = rowsOf(m, tensorUsers, tensorUserIDs)
	p.items, p.itemIDs = rowsOf(m, tensorItems, tensorItemIDs)
	r.Users, r.Items = len(p.userIDs), len(p.itemIDs)
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("impossible model: %w", err)
	}
	if len(p.users) != r.Users*(p.rank+1) || len(p.items) != r.Items*(p.rank+1) {
		return nil, fmt.Errorf("the model's tensors do not fit %d users, %d items and rank %d", r.Users, r.Items, p.rank)
	}
	if p.byUser, err = namesOf(m, metadataUsers, r.Users); err == nil {
		p.byItem, err = namesOf(m, metadataItems, r.Items)
	}
	return &p, err
}

// namesOf returns the rows by name; nil if ids are whole numbers.
func namesOf(m model.Model, list string, rows int) (map[string]int, error) {
	text, there := m.Metadata[list]
	if !there {
		return nil, nil
	}
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil || len(names) != rows {
		return nil, fmt.Errorf("the model's %s do not fit its %d rows", list, rows)
	}
	by := make(map[string]int, rows)
	for row, name := range names {
		by[name] = row
	}
	return by, nil
}

func rowsOf(m model.Model, values, ids string) ([]float32, []int64) {
	v, _ := m.Tensor(values)
	i, _ := m.Tensor(ids)
	return v.Float, i.Int
}

// Predict returns the predicted rating. It returns false if the model has not seen that user or item.
func (p *Predictor) Predict(user, item int64) (float64, bool) {
	u, knownUser := slices.BinarySearch(p.userIDs, user)
	i, knownItem := slices.BinarySearch(p.itemIDs, item)
	if !knownUser || !knownItem {
		return 0, false
	}
	return p.at(u, i), true
}

// PredictNamed is Predict for ids as written in the file.
func (p *Predictor) PredictNamed(user, item string) (float64, bool) {
	if p.byUser == nil {
		u, err := strconv.ParseInt(user, 10, 64)
		i, err2 := strconv.ParseInt(item, 10, 64)
		if err != nil || err2 != nil {
			return 0, false
		}
		return p.Predict(u, i)
	}
	u, knownUser := p.byUser[user]
	i, knownItem := p.byItem[item]
	if !knownUser || !knownItem {
		return 0, false
	}
	return p.at(u, i), true
}

// at returns the prediction for two rows.
func (p *Predictor) at(u, i int) float64 {
	cols := p.rank + 1
	return p.ratings.rating(predict(p.users[u*cols:(u+1)*cols], p.items[i*cols:(i+1)*cols]))
}

// eachSplit reads the split files on all cores, and passes them on in order.
func (p *Program) eachSplit(open apps.Open, do func(*splitData)) error {
	read := func(id int) (*splitData, error) {
		file, err := open(ps.Split(id))
		if err != nil {
			return nil, fmt.Errorf("open split %d: %w", id, err)
		}
		data, err := p.read(ps.Split(id), file)
		return data, errors.Join(err, file.Close())
	}
	return parallel.InOrder(runtime.GOMAXPROCS(0), p.data.Splits, read, func(_ int, data *splitData) error {
		do(data)
		return nil
	})
}
