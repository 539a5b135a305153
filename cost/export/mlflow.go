package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/pattern"
)

// MLflow logs a run to a tracking server by its REST API: an experiment for the job, containing a run, which is found again by a tag.
type MLflow struct{}

const (
	mlflowBatch   = 1000 // metrics in a request, by MLflow's limit
	mlflowNote    = 5000 // bytes of a tag
	mlflowTag     = "tierml.run"
	mlflowTimeout = time.Minute // of a request
)

// Export implements Exporter. Into is the server's address, by default that in MLFLOW_TRACKING_URI.
func (MLflow) Export(ctx context.Context, run Run, into string) (string, error) {
	at, err := url.Parse(cmp.Or(into, os.Getenv("MLFLOW_TRACKING_URI")))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return "", errors.New("name MLflow's tracking server: --into URL, or MLFLOW_TRACKING_URI, such as http://localhost:5000")
	}
	s := mlflowServer{strings.TrimSuffix(at.String(), "/")}
	experiment, err := s.experiment(ctx, run.Job)
	if err != nil {
		return "", err
	}
	id, err := s.run(ctx, experiment, run)
	if err != nil {
		return "", err
	}
	type param struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	batch := map[string]any{"run_id": id, "tags": []param{{"mlflow.note.content", note(run)}}}
	var params []param
	for key, value := range run.About {
		params = append(params, param{key, value})
	}
	slices.SortFunc(params, func(a, b param) int { return strings.Compare(a.Key, b.Key) })
	batch["params"] = params
	metrics := metricsOf(run)
	for first := true; first || len(metrics) > 0; first = false {
		n := min(mlflowBatch, len(metrics))
		batch["metrics"] = metrics[:n]
		if err := s.call(ctx, http.MethodPost, "runs/log-batch", batch, nil); err != nil {
			return "", err
		}
		batch, metrics = map[string]any{"run_id": id}, metrics[n:]
	}
	state := map[string]string{"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}[run.Outcome]
	end := map[string]any{"run_id": id, "status": cmp.Or(state, "RUNNING")}
	if state != "" {
		end["end_time"] = run.Ended.UnixMilli()
	}
	if err := s.call(ctx, http.MethodPost, "runs/update", end, nil); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/#/experiments/%s/runs/%s", s.address, experiment, id), nil
}

type mlflowMetric struct {
	Key       string  `json:"key"`
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"`
	Step      int64   `json:"step"`
}

// notInKey matches characters that MLflow does not allow in a metric's name.
var notInKey = pattern.Of(`[^A-Za-z0-9_./ -]`)

func metricsOf(run Run) (out []mlflowMetric) {
	for _, s := range run.Series {
		key := notInKey().ReplaceAllString(strings.TrimPrefix(s.Trial+"/"+s.Name, "/"), "_")
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) { // JSON has none
				out = append(out, mlflowMetric{key, p.Value, p.At.UnixMilli(), p.Step})
			}
		}
	}
	return out
}

// note returns the newest events in Markdown, as many as fit.
func note(run Run) string {
	var lines []string
	room := mlflowNote
	for _, e := range slices.Backward(run.Events) {
		line := "- " + e.T.UTC().Format(time.DateTime) + " " + e.String()
		if room -= len(line) + 1; room < 0 {
			break
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

type mlflowServer struct{ address string }

// experiment returns the experiment of a name, creating it if necessary.
func (s mlflowServer) experiment(ctx context.Context, name string) (string, error) {
	var found struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	err := s.call(ctx, http.MethodGet, "experiments/get-by-name?experiment_name="+url.QueryEscape(name), nil, &found)
	if err == nil {
		return found.Experiment.ID, nil
	}
	if failed, ok := errors.AsType[*mlflowError](err); !ok || failed.Code != "RESOURCE_DOES_NOT_EXIST" {
		return "", err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	err = s.call(ctx, http.MethodPost, "experiments/create", map[string]string{"name": name}, &made)
	return made.ID, err
}

// run returns the id of a run, creating it if necessary.
func (s mlflowServer) run(ctx context.Context, experiment string, run Run) (string, error) {
	type info struct {
		Info struct {
			ID string `json:"run_id"`
		} `json:"info"`
	}
	var found struct {
		Runs []info `json:"runs"`
	}
	name := strings.ReplaceAll(run.Name, "'", "_")
	err := s.call(ctx, http.MethodPost, "runs/search", map[string]any{"experiment_ids": []string{experiment}, "max_results": 1,
		"filter": "tags.`" + mlflowTag + "` = '" + name + "'"}, &found)
	if err != nil || len(found.Runs) > 0 {
		return append(found.Runs, info{})[0].Info.ID, err
	}
	var made struct {
		Run info `json:"run"`
	}
	err = s.call(ctx, http.MethodPost, "runs/create", map[string]any{"experiment_id": experiment, "run_name": run.Name, "start_time": run.Began.UnixMilli(),
		"tags": []map[string]string{{"key": mlflowTag, "value": name}}}, &made)
	return made.Run.Info.ID, err
}

// mlflowError is the server's error.
type mlflowError struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
	status  string
}

func (e *mlflowError) Error() string {
	return fmt.Sprintf("MLflow answers %s: %s %s", e.status, e.Code, e.Message)
}

// call makes a request and reads its answer. Credentials are those of MLflow's own clients.
func (s mlflowServer) call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, mlflowTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("a request to MLflow: %w", err)
	}
	if body == nil {
		text = nil
	}
	request, err := http.NewRequestWithContext(ctx, method, s.address+"/api/2.0/mlflow/"+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("a request to MLflow: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("MLFLOW_TRACKING_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	} else if user := os.Getenv("MLFLOW_TRACKING_USERNAME"); user != "" {
		request.SetBasicAuth(user, os.Getenv("MLFLOW_TRACKING_PASSWORD"))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("calling MLflow: %w", err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("reading MLflow's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		failed := &mlflowError{status: response.Status}
		if json.Unmarshal(got, failed) != nil {
			failed.Message = string(got[:min(200, len(got))])
		}
		return failed
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return fmt.Errorf("reading MLflow's answer: %w", err)
	}
	return nil
}
