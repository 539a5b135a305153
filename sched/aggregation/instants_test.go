package aggregation

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// instant is what a cluster serves at a time: the input of testdata/instants.py.
type instant struct {
	VC   string `json:"vc"`
	Jobs []struct {
		D float64 `json:"d"` // of an iteration, in nanoseconds
		U float64 `json:"u"` // servers that its tasks take at least
	} `json:"jobs"`
	Asked int     `json:"asked"` // servers that the jobs ask for
	Busy  float64 `json:"busy"`  // servers that they take at least
	Ours  int     `json:"ours"`  // aggregators, packed from nothing

	Longer int     `json:"longer"` // aggregators, in cycles of up to Longest iterations
	Lost   float64 `json:"lost"`   // of their speed that the jobs lose then, in the mean
}

// TestInstantsOfPhilly writes down what clusters serve at 150 evenly spaced times, for a program that proves how few servers could do: `make
// aggregation-bound`. It also prints what packing anew at every arrival and end saves, by 20 times the search.
func TestInstantsOfPhilly(t *testing.T) {
	dir, to := os.Getenv("TIERML_AGGREGATION_DATA"), os.Getenv("TIERML_AGGREGATION_INSTANTS")
	if to == "" {
		t.Skip("make -C lab aggregation-bound names the file")
	}
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const times = 150
	_, philly := readPhilly(t, dir)
	for _, name := range []string{"0e4a51", "11cb48", "7f04ca", "e13805", "b436b2", "ee9e8c"} {
		jobs := philly(1, 1, name, 0)
		last := slices.MaxFunc(jobs, func(a, b submitted) int { return cmp.Compare(a.at+a.runs, b.at+b.runs) })
		for k := range times {
			if s := serves(t, name, jobs, (last.at+last.runs)*(float64(k)+0.5)/times); len(s.Jobs) > 0 {
				if err := json.NewEncoder(file).Encode(s); err != nil {
					t.Fatal(err)
				}
			}
		}
		if os.Getenv("TIERML_AGGREGATION_SEARCH") != "" {
			p := alone(DefaultLoss)
			p.pools[0].tries *= 20
			f := replay(t, jobs, p, -1)
			t.Logf("%s, packed anew at every arrival and end with 20 times the search: %.3f of the bound", name, f.saved()/f.bound())
		}
	}
}

// serves returns what a cluster serves at a time.
func serves(t *testing.T, name string, jobs []submitted, at float64) instant {
	t.Helper()
	s := instant{VC: name}
	p, longer := NewPool(Limits{Loss: DefaultLoss}), NewPool(Limits{Loss: DefaultLoss, Longer: Longest})
	var ids []string
	for _, j := range jobs {
		if j.at > at || at >= j.at+j.runs {
			continue
		}
		one := struct {
			D float64 `json:"d"`
			U float64 `json:"u"`
		}{D: float64(j.of.Iteration)}
		for _, task := range j.of.Tasks {
			one.U += float64(task.Exec) / one.D
		}
		s.Jobs, s.Asked = append(s.Jobs, one), s.Asked+j.servers
		for _, p := range []*Pool{p, longer} {
			if _, err := p.Arrive(j.of); err != nil {
				t.Fatal(err)
			}
		}
		ids = append(ids, j.of.ID)
	}
	p.Repack()
	longer.Repack()
	for _, id := range ids {
		s.Lost += longer.Loss(id) / float64(len(ids))
	}
	s.Ours, s.Busy, s.Longer = p.Size(), p.Busy(), longer.Size()
	return s
}
