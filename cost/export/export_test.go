package export_test

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/export"
)

func report() *cost.Report {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	half, third := .5, .25
	return &cost.Report{
		Run:    cost.Run{Name: "rates", Kind: "sweep", Metric: "rmse", Outcome: "finished", Began: at, AsOf: at.Add(time.Hour), Seed: 7},
		Totals: cost.Totals{Total: 1_500_000_000, Evictions: 2},
		Programs: &cost.Programs{Trials: []cost.Trial{{Task: 3, Losses: []cost.LossPoint{
			{Clock: 10, At: at.Add(time.Minute), USD: .01, Train: &half}, {Clock: 20, At: at.Add(2 * time.Minute), USD: .02, Train: &third}}}}},
		Events: []cost.Event{{T: at, Text: "2 machines were evicted", Why: "<b>prices</b>"}},
		Series: cost.Series{Use: []cost.MachineUse{{Machine: "i-1", Steps: []cost.UseStep{{At: at.Add(time.Minute), Cores: 1.5, Memory: 99}}}}},
	}
}

// TestTensorBoardFilesAreRecords reads the files by TFRecord's own rules: lengths and both masked checksums of every record.
func TestTensorBoardFilesAreRecords(t *testing.T) {
	into := t.TempDir()
	var first []byte
	for range 2 { // exporting again replaces
		dir, err := export.Of("tensorboard").Export(t.Context(), export.New("rates-1", report()), into)
		if err != nil || dir != filepath.Join(into, "rates-1") {
			t.Fatalf("%q, %v", dir, err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "task-3", "*tfevents*"))
		if len(files) != 1 {
			t.Fatalf("files %v", files)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && string(text) != string(first) {
			t.Error("the same run has other files")
		}
		first = text
	}
	sum := func(b []byte) uint32 {
		c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return (c>>15 | c<<17) + 0xa282ead8
	}
	var steps []uint64
	records := 0
	for rest := first; len(rest) > 0; records++ {
		n := binary.LittleEndian.Uint64(rest)
		if binary.LittleEndian.Uint32(rest[8:]) != sum(rest[:8]) || binary.LittleEndian.Uint32(rest[12+n:]) != sum(rest[12:12+n]) {
			t.Fatalf("record %d has a wrong checksum", records)
		}
		for event := rest[12 : 12+n]; len(event) > 0; {
			number, kind, tag := protowire.ConsumeTag(event)
			size := protowire.ConsumeFieldValue(number, kind, event[tag:])
			if size < 0 {
				t.Fatalf("record %d is no protobuf", records)
			}
			if number == 2 && records > 0 {
				step, _ := protowire.ConsumeVarint(event[tag:])
				steps = append(steps, step)
			}
			event = event[tag+size:]
		}
		rest = rest[16+n:]
	}
	if records != 5 || !slices.Equal(steps, []uint64{10, 20, 10, 20}) { // the version, two losses, two sums
		t.Errorf("%d records, steps %v", records, steps)
	}
}

func TestExportersWantAPlace(t *testing.T) {
	t.Setenv("MLFLOW_TRACKING_URI", "file:///tmp/x")
	for _, name := range export.Names() {
		if _, err := export.Of(name).Export(t.Context(), export.New("rates-1", report()), ""); err == nil || !strings.Contains(err.Error(), "--into") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMLflowGetsOneRun: what is logged, and that logging again finds the first run.
func TestMLflowGetsOneRun(t *testing.T) {
	var calls []string
	bodies := map[string]map[string]any{}
	made := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/")
		calls = append(calls, path)
		text, _ := io.ReadAll(r.Body)
		var body map[string]any
		_ = json.Unmarshal(text, &body)
		bodies[path] = body
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch path {
		case "experiments/get-by-name":
			if !made {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"error_code":"RESOURCE_DOES_NOT_EXIST","message":"none"}`)
				return
			}
			_, _ = io.WriteString(w, `{"experiment":{"experiment_id":"5"}}`)
		case "experiments/create":
			_, _ = io.WriteString(w, `{"experiment_id":"5"}`)
		case "runs/search":
			if made {
				_, _ = io.WriteString(w, `{"runs":[{"info":{"run_id":"r9"}}]}`)
				return
			}
			_, _ = io.WriteString(w, `{}`)
		case "runs/create":
			made = true
			_, _ = io.WriteString(w, `{"run":{"info":{"run_id":"r9"}}}`)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	}))
	defer s.Close()
	t.Setenv("MLFLOW_TRACKING_URI", s.URL)
	to, run := export.Of("mlflow"), export.New("rates-1", report())
	if _, err := to.Export(t.Context(), run, ""); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv("MLFLOW_TRACKING_TOKEN", "secret")
	calls = nil
	for range 2 {
		if where, err := to.Export(t.Context(), run, ""); err != nil || where != s.URL+"/#/experiments/5/runs/r9" {
			t.Fatalf("%q, %v", where, err)
		}
	}
	if got := strings.Join(calls, " "); got != "experiments/get-by-name experiments/create runs/search runs/create runs/log-batch runs/update "+
		"experiments/get-by-name runs/search runs/log-batch runs/update" {
		t.Errorf("calls: %s", got)
	}
	batch, _ := json.Marshal(bodies["runs/log-batch"])
	for _, want := range []string{`{"key":"task-3/rmse/train","step":20,"timestamp":1777636920000,"value":0.25}`, `{"key":"cost/total_dollars","step":0,"timestamp":1777640400000,"value":1.5}`,
		`{"key":"kind","value":"sweep"}`, `2 machines were evicted`, `machine/i-1/cores`} {
		if !strings.Contains(string(batch), want) {
			t.Errorf("no %s in %s", want, batch)
		}
	}
	if got := bodies["runs/update"]; got["status"] != "FINISHED" || got["end_time"] != 1777640400000.0 {
		t.Errorf("%v", got)
	}
}
