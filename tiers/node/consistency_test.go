package node

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/apps"
	registry "github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node/link"
)

// The loss after a number of clocks is the job's, not the cluster's: one, two or eight real nodes, with servers and clients on TCP, reach
// the same held-out loss under every consistency model, and in deterministic mode exactly the bits of training in one process.
func TestLossDependsOnNeitherWorkersNorConsistency(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given, and this trains on real nodes: leave -short out")
	}
	const within = 0.01
	for _, job := range consistencyJobs(t) {
		t.Run(job.kind.Name(), func(t *testing.T) {
			undisturbed := job.inOneProcess(t)
			want := job.loss(t, job, undisturbed)
			if !(want < job.untrained(t)*job.learns) {
				t.Fatalf("held-out loss %v in one process, %v before any training: it has learned nothing to compare", want, job.untrained(t))
			}
			for _, mode := range []struct {
				name          string
				deterministic bool
				staleness     ps.Clock
			}{{"deterministic", true, 0}, {"BSP", false, 0}, {"SSP 2", false, 2}, {"ASP", false, ps.Unbounded}} {
				for _, workers := range []int{1, 2, 8} {
					if workers == 1 && mode.staleness > 0 {
						continue // it has no other worker to be ahead of
					}
					tables := job.onNodes(t, workers, mode.deterministic, mode.staleness)
					got := job.loss(t, job, tables)
					t.Logf("%-13s %d workers: %.6f, %+.3f %%", mode.name, workers, got, 100*(got/want-1))
					if math.Abs(got-want) > within*want {
						t.Errorf("%s, %d workers: held-out loss %v; in one process %v, more than 1 %% away", mode.name, workers, got, want)
					}
					if mode.deterministic && !tables.equal(undisturbed) {
						t.Errorf("%s, %d workers: parameters differ from those of one process", mode.name, workers)
					}
				}
			}
		})
	}
}

// trained is a job on a data set.
type trained struct {
	kind    apps.Kind
	params  apps.Params
	clocks  ps.Clock
	seed    uint64
	uneven  bool    // the first node has half of the splits, and nothing holds the others back
	learns  float64 // the held-out loss falls at least to this fraction
	dataset apps.Dataset
	splits  map[ps.Split]*bytes.Buffer
	program apps.Program
	loss    func(*testing.T, *trained, finished) float64
}

const (
	consistencySplits = 16
	consistencySeed   = 3
	// consistencyLead is how many clocks at most a worker gets ahead of another. Under ASP only the controller's Until keeps them together,
	// where a cluster has machines of similar speed: it lies beyond SSP's bound, and the test does not depend on the host's scheduling.
	consistencyLead = 5
)

func consistencyJobs(t *testing.T) []*trained {
	ratings, err := os.ReadFile("../../examples/data/jester5k.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	two, five := classes(2, 2000, 1), classes(consistencyClasses, 2000, 1)
	jobs := []*trained{
		prepared(t, heldOut, "mf", apps.Params{"rank": 8}, 12, 0.95, "jester5k.csv.gz", ratings),
		// With the optimizer for jobs with stale reads: what averaging loses under ASP depends on which worker is late at the end.
		prepared(t, objective, "logistic", apps.Params{"optimizer": "adagrad", "l2": 0.01}, 150, 0.7, "two.libsvm", two),
		prepared(t, logLoss, "mlr", apps.Params{"batches": 4, "l2": 0.01}, 144, 0.9, "five.libsvm", five),
		prepared(t, heldOut, "lda", apps.Params{"topics": 12, "alpha_sum": 4}, 30, 0.8, "docword.generated.txt", topics(5, 800, 200)),
	}
	if os.Getenv("TIERML_ALL_APPLICATIONS") != "" {
		jobs = append(jobs,
			prepared(t, logLoss, "dnn", apps.Params{"batches": 4, "hidden": 16, "l2": 0.02, "momentum": 0.8}, 300, 0.9, "five.libsvm", five),
			prepared(t, objective, "svm", apps.Params{"l2": 0.01, "optimizer": "adagrad"}, 240, 0.7, "two.libsvm", two))
		for _, name := range []string{"linear", "ridge", "lasso", "robust"} { // the first clock does much of it
			jobs = append(jobs, prepared(t, objective, name, apps.Params{"optimizer": "adagrad"}, 240, 0.95, "five.libsvm", five))
		}
	}
	return jobs
}

func prepared(t *testing.T, loss func(*testing.T, *trained, finished) float64, app string, params apps.Params, clocks ps.Clock, learns float64, name string, data []byte) *trained {
	t.Helper()
	kind, err := registry.Registry().Find(app)
	if err != nil {
		t.Fatal(err)
	}
	return preparedKind(t, loss, kind, params, clocks, learns, name, data)
}

func preparedKind(t *testing.T, loss func(*testing.T, *trained, finished) float64, kind apps.Kind, params apps.Params, clocks ps.Clock, learns float64, name string, data []byte) *trained {
	t.Helper()
	j := &trained{kind: kind, clocks: clocks, learns: learns, loss: loss, seed: consistencySeed}
	j.prepare(t, apps.Input{Name: name, Data: bytes.NewReader(data)}, apps.Cut{Splits: consistencySplits, Holdout: 0.4, Seed: 1}, params)
	return j
}

func (j *trained) prepare(t *testing.T, in apps.Input, cut apps.Cut, params apps.Params) {
	t.Helper()
	var err error
	j.params, j.splits = params, map[ps.Split]*bytes.Buffer{}
	if j.dataset, err = j.kind.Prepare(in, cut, j.create); err != nil {
		t.Fatal(err)
	}
	if j.program, err = j.kind.New(params, j.dataset); err != nil {
		t.Fatal(err)
	}
}

func (j *trained) create(id ps.Split) (io.WriteCloser, error) {
	j.splits[id] = new(bytes.Buffer)
	return struct {
		io.Writer
		io.Closer
	}{j.splits[id], io.NopCloser(nil)}, nil
}

func (j *trained) open(id ps.Split) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(j.splits[id].Bytes())), nil
}

func (j *trained) schema(deterministic bool, staleness ps.Clock) ps.Schema {
	return ps.Schema{Tables: j.program.Tables(), Partitions: 8, Splits: consistencySplits, Seed: j.seed,
		Deterministic: deterministic, Staleness: staleness}
}

// finished is a trained job's tables.
type finished map[ps.Key][]float32

// Row implements apps.Rows.
func (f finished) Row(k ps.Key) []float32 { return f[k] }

func (f finished) equal(g finished) bool {
	for k, row := range f {
		if !slices.EqualFunc(row, g[k], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			return false
		}
	}
	return len(f) == len(g)
}

// collect returns every row, filled by fill.
func (j *trained) collect(fill func(k ps.Key, row []float32)) finished {
	f := finished{}
	for id, table := range j.program.Tables() {
		for row := range table.Rows {
			k := ps.Key{Table: ps.TableID(id), Row: ps.RowID(row)}
			f[k] = make([]float32, table.Cols)
			fill(k, f[k])
		}
	}
	return f
}

// heldOut returns the score on the held-out examples.
func heldOut(t *testing.T, j *trained, tables finished) float64 {
	t.Helper()
	stats, err := j.program.Evaluate(tables, j.open)
	if err != nil {
		t.Fatal(err)
	}
	return j.program.Score(stats.TestLoss, stats.TestCount)
}

// objective returns the loss that package linear minimizes. Error rates, its usual score, are useless within 1 %: a handful of examples at
// the border between two classes is as much.
func objective(t *testing.T, j *trained, tables finished) float64 {
	t.Helper()
	loss, err := j.program.(interface {
		Objective(apps.Rows, apps.Open) (float64, error)
	}).Objective(tables, j.open)
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// logLoss returns the mean negative log-likelihood of new examples, by the exported network.
func logLoss(t *testing.T, j *trained, tables finished) float64 {
	t.Helper()
	m, err := j.program.Export(tables, j.open)
	if err != nil {
		t.Fatal(err)
	}
	var loss float64
	const count = 4000
	for _, e := range drawClasses(consistencyClasses, count, 2) {
		scores := e.features[:]
		for layer := 1; ; layer++ {
			weights, there := m.Tensor(fmt.Sprintf("layer%d.weight", layer))
			if !there {
				break
			}
			bias, _ := m.Tensor(fmt.Sprintf("layer%d.bias", layer))
			scores = forward(scores, weights.Float, bias.Float, layer > 1)
		}
		if len(scores) != consistencyClasses {
			t.Fatalf("%d scores", len(scores))
		}
		var sum float64
		for _, s := range scores {
			sum += math.Exp(s)
		}
		loss += math.Log(sum) - scores[e.class]
	}
	return loss / count
}

// forward computes a layer's outputs; with hidden, after ReLU of its inputs.
func forward(in []float64, weights, bias []float32, hidden bool) []float64 {
	out := make([]float64, len(bias))
	for c, b := range bias {
		out[c] = float64(b)
		for f, x := range in {
			if hidden {
				x = max(x, 0)
			}
			out[c] += x * float64(weights[f*len(bias)+c])
		}
	}
	return out
}

// untrained returns the held-out loss at clock 1: with only initial values an LDA model has no topics to score.
func (j *trained) untrained(t *testing.T) float64 { return j.loss(t, j, j.after(t, 1)) }

func (j *trained) inOneProcess(t *testing.T) finished { return j.after(t, j.clocks) }

func (j *trained) after(t *testing.T, clocks ps.Clock) finished {
	t.Helper()
	trainer, err := local.New(j.program, j.schema(true, 0), j.open)
	if err != nil {
		t.Fatal(err)
	}
	for range clocks {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	return j.collect(func(k ps.Key, row []float32) { copy(row, trainer.Row(k)) })
}

// onNodes trains on several nodes, all of which own partitions and work on splits.
func (j *trained) onNodes(t *testing.T, workers int, deterministic bool, staleness ps.Clock) finished {
	t.Helper()
	w := &world{t: t, schema: j.schema(deterministic, staleness), changed: make(chan struct{}), real: true, trains: j}
	w.openLink()
	first := ps.Clock(consistencyLead)
	if j.uneven {
		first = j.clocks
	}
	machines, route, peers := w.cluster(workers, j.clocks, first, j.uneven)
	for until := ps.Clock(consistencyLead); ; until += consistencyLead {
		for id := range machines {
			w.await(0, func(r link.FromNode) bool {
				p, ok := r.Report.(tiers.Progress)
				return ok && r.ID == id && p.Clock == min(until, j.clocks)
			})
		}
		if until >= j.clocks {
			break
		}
		if j.uneven {
			continue
		}
		for id := range machines {
			w.order(id, tiers.Unpark{Until: min(until+consistencyLead, j.clocks)})
		}
	}
	client, err := NewDataClient(ClientConfig{Self: "test", Job: "toy", Schema: w.schema, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	client.SetRoute(0, route, peers)
	tables := j.readAll(t, client, 0)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	for id, m := range machines {
		w.do(id, tiers.Stop{Why: "done"})
		<-m.ended
		if m.outcome != nil {
			t.Errorf("%s ended with %v", id, m.outcome)
		}
	}
	w.closeLink()
	goleak.VerifyNone(t)
	return tables
}

// cluster starts nodes and assigns partitions and splits. Nothing can be read before the route is known, which all nodes learn at the same
// time, so that they begin together.
func (w *world) cluster(workers int, until, first ps.Clock, uneven bool) (map[ps.ServerID]*machine, ps.Route, map[ps.ServerID]string) {
	w.t.Helper()
	ids := make([]ps.ServerID, workers)
	machines, peers, route := map[ps.ServerID]*machine{}, map[ps.ServerID]string{}, ps.Route{Version: 1}
	owned, worked := make([][]ps.Partition, workers), make([][]ps.Split, workers)
	for p := range ps.Partition(w.schema.Partitions) {
		owned[int(p)%workers] = append(owned[int(p)%workers], p)
	}
	for s := range ps.Split(w.schema.Splits) {
		at := int(s) % workers
		if uneven {
			at = 0
			if s%2 == 1 {
				at = 1 + int(s/2)%(workers-1)
			}
		}
		worked[at] = append(worked[at], s)
	}
	for i := range ids {
		id := ps.ServerID(fmt.Sprintf("i-%d", i+1))
		ids[i], machines[id] = id, w.start(id, func(m *machine) { m.flops = 0 })
		hello := w.awaitReport(id, func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok }).(tiers.Hello)
		peers[id] = hello.Address
		w.do(id, w.welcome(ps.Incarnation(i+1), until))
		w.do(id, tiers.Load{Splits: worked[i]})
		w.do(id, tiers.BackUp{Partitions: owned[i]})
		w.do(id, tiers.Own{Partitions: owned[i]})
		w.do(id, tiers.Assign{Splits: all(worked[i]...)})
		w.do(id, tiers.Unpark{Until: first})
	}
	for p := range w.schema.Partitions {
		route.Owner = append(route.Owner, ids[p%workers])
	}
	route.Backup = route.Owner
	told := make([]uint64, workers)
	for i, id := range ids {
		told[i] = w.order(id, tiers.SetRoute{Route: route, Peers: peers})
	}
	for i, id := range ids {
		if a := w.answer(id, told[i]); a.Code != tiers.CodeOK {
			w.t.Fatalf("the route at %s: %+v", id, a)
		}
	}
	return machines, route, peers
}

// readAll returns the tables after the last clock, read from the servers.
func (j *trained) readAll(t *testing.T, client Client, g ps.Generation) finished {
	t.Helper()
	var keys []ps.Key
	size := 0
	tables := j.collect(func(k ps.Key, row []float32) { keys, size = append(keys, k), size+len(row) })
	values := make([]float32, size)
	if err := client.Read(t.Context(), g, j.clocks+1, keys, values, nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		values = values[copy(tables[k], values):]
	}
	return tables
}

// example is one of overlapping classes: the loss has a floor that every converged run comes near.
type example struct {
	class    int
	features [classFeatures]float64
}

const (
	classFeatures      = 30
	consistencyClasses = 5
)

func drawClasses(count, examples int, seed uint64) []example {
	rng := rand.New(rand.NewPCG(1, uint64(count)))
	centres := make([][classFeatures]float64, count)
	for c := range centres {
		for f := range classFeatures {
			centres[c][f] = 0.35 * rng.NormFloat64()
		}
	}
	rng = rand.New(rand.NewPCG(seed, 3))
	drawn := make([]example, examples)
	for i := range drawn {
		e := &drawn[i]
		e.class = rng.IntN(count)
		for f := range e.features {
			e.features[f] = centres[e.class][f] + rng.NormFloat64()
		}
	}
	return drawn
}

// classes returns examples in LIBSVM's format.
func classes(count, examples int, seed uint64) []byte {
	var b bytes.Buffer
	for _, e := range drawClasses(count, examples, seed) {
		label := e.class
		if count == 2 {
			label = 2*e.class - 1
		}
		fmt.Fprint(&b, label)
		for f, x := range e.features {
			fmt.Fprintf(&b, " %d:%.4f", f+1, x)
		}
		fmt.Fprintln(&b)
	}
	return b.Bytes()
}

// topics draws documents in UCI's bag-of-words format. Each is mostly about two topics, each a range of words.
func topics(count, documents, words int) []byte {
	const tokens = 150
	rng := rand.New(rand.NewPCG(2, uint64(count)))
	var b strings.Builder
	entries := 0
	for d := range documents {
		drawn := make([]int, words)
		about := [2]int{rng.IntN(count), rng.IntN(count)}
		for range tokens {
			word := rng.IntN(words)
			if rng.IntN(10) > 0 {
				word = (about[rng.IntN(2)]*words + rng.IntN(words)) / count
			}
			drawn[word]++
		}
		for word, times := range drawn {
			if times > 0 {
				fmt.Fprintln(&b, d+1, word+1, times)
				entries++
			}
		}
	}
	return fmt.Appendf(nil, "%d\n%d\n%d\n%s", documents, words, entries, b.String())
}
