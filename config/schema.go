package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/internal/spelling"
)

// examples show in messages how a field is written.
var examples = map[string]string{
	"name": "name: demo", "cloud": "cloud: local", "policy": "policy: tierml", "prefer": "prefer: cost", "value_of_time": "value_of_time: $2", "security": "security: tls", "budget": "budget: $20",
	"max_duration": "max_duration: 24h", "per_hour": "per_hour: $3", "over_hour": "over_hour: shrink", "over_budget": "over_budget: warn",
	"tune": "tune: true", "warn_at": "warn_at: 0.9", "alerts.url": "url: https://example.com/hook", "url_file": "url_file: hook-url", "secret_file": "secret_file: hook-secret",
	"limits": "limits: {per_hour: $3}", "alerts": "alerts: {url: https://example.com/hook}", "deadline": "deadline: 2014-04-02T00:00:00Z", "orphan_after": "orphan_after: 10s",
	"weight": "weight: 2", "priority": "priority: 5", "group": "group: vision", "start_with": "start_with: 2", "feedback[].at": "at: 50", "feedback[].keep": "keep: 3", "feedback[]": "at: 50 with keep: 3",
	"heartbeat": "heartbeat: 500ms", "dead_after": "dead_after: 3s",
	"seed": "seed: 1", "resources": "resources:", "resources.count": "count: 18", "resources.vcpu": "vcpu: 72",
	"resources.any_of": "any_of: [{type: c3.xlarge}]", "resources.any_of[]": "type: c3.xlarge, or a need such as cpus: 4+",
	"type": "type: c3.xlarge", "cpus": "cpus: 4+", "memory": "memory: 8GB+", "arch": "arch: x86_64",
	"max_price": "max_price: 0.30", "resources.allocation": "allocation: price-capacity-optimized", "resources.zones": "zones: [us-west-1a]", "train.columns": "columns: [age, income, class]", "train.ignore": "ignore: [id]", "zone": "zone: us-west-1a",
	"reliable.bandwidth": "bandwidth: 1Gbit/s", "reliable.committed": "committed: $0.0613", "model": "model: 2GB", "bandwidth": "bandwidth: 100M", "save": "save: 30s", "restart": "restart: 1m", "overhead": "overhead: 0.17",
	"train": "train:, and below it app:, data: and clocks:", "train.app": "app: mf", "train.data": "data: data/jester5k.csv.gz", "train.holdout": "holdout: 0.2",
	"train.clocks": "clocks: 400", "train.stop": "stop: {loss: 0.92}", "train.max_bad_lines": "max_bad_lines: 10", "train.deterministic": "deterministic: true",
	"provider": "provider: gce", "env": "env: {DATA: /srv/data}", "reliable": "reliable: {type: c3.xlarge, count: 1}",
	"reliable.count": "count: 1", "checkpoint": "checkpoint: {every: 5m, keep: 3}", "checkpoint.to": "to: /srv/runs", "checkpoint.every": "every: 30s",
	"checkpoint.every_clocks": "every_clocks: 50", "checkpoint.keep": "keep: 3", "rate": "rate: 4.5",
	"train.splits": "splits: 64", "train.partitions": "partitions: 32", "train.consistency": "consistency: ssp", "train.staleness": "staleness: 2",
	"train.evaluate_every": "evaluate_every: 5", "train.stop.loss": "loss: 0.92", "train.stop.min_improvement": "min_improvement: 0.001",
	"train.stop.patience": "patience: 30", "train.stop.time": "time: 8h", "train.params": "params: {rank: 16, step: 0.01}",
	"stages": "stages: {two_above: 1, three_above: 15}", "stages.two_above": "two_above: 1", "stages.three_above": "three_above: 15",
	"stages.server_bytes": "server_bytes: 65536",
	"local":               "local:, and below it prices:, catalog: and start:", "advisor": "advisor: data/spot-advisor-data.json", "local.speed": "speed: 600",
	"local.capacity": "capacity: {c3.2xlarge: 12}", "local.script": "script: [{at: 6h, do: kill}]", "local.script[].count": "count: 3",
	"cluster": "cluster: tierml",
	"owner":   "owner: ann",
	"gpu":     "gpu: L40S:1", "resources.gpu": "gpu: [L40S:1, A10G:1]",
	"cloud_access": "cloud_access: true", "store_tokens": "store_tokens: true", "run": "run: python3 train.py", "setup": "setup: pip install -r requirements.txt", "workdir": "workdir: .", "envs": "envs: {EPOCHS: 3}",
	"secrets": "secrets: {HF_TOKEN: {env: HF_TOKEN}}", "state": "state: {dir: ckpt}", "state.dir": "dir: ckpt", "state.every": "every: 10m", "state.marker": "marker: DONE",
	"progress": `progress: {line: 'step (\d+)', of: 1000}`, "progress.line": `line: 'step (\d+)'`, "progress.file": "file: progress.txt",
	"progress.of": "of: 1000", "sweep": "sweep: {envs: {RATE: log 1e-4..1}, samples: 24}", "sweep.envs": "envs: {RATE: log 1e-4..1, WIDTH: [16, 32]}", "sweep.params": "params: {step: log 0.01..10}",
	"search": "search: grid", "sweep.seed": "seed: 7", "samples": "samples: 24", "feedback": "feedback: [{at: 5, keep: 8}]", "sweep.feedback[].at": "at: 5", "sweep.feedback[].keep": "keep: 8", "sweep.feedback[]": "at: 5 with keep: 8", "hours": "hours: 3", "tasks": "tasks: 24", "retries": "retries: 2", "on_loss": "on_loss: replace", "coordinator": "coordinator: python3 store.py", "on_notice": "on_notice: ./save.sh",
	"tiers": "tiers: {parameters: 124M, every: 50}", "parameters": "parameters: 124M", "tiers.every": "every: 50", "tiers.rate": "rate: 0.7", "momentum": "momentum: 0.9", "tiers.deterministic": "deterministic: true", "transport": "transport: float32",
	"ports": "ports: [8080]", "image": "image: python:3.12-slim",
	"hosts": "hosts: {keep: 5m}", "keep": "keep: 5m", "wait": "wait: 1h", "loss_limit": "loss_limit: 0.1", "hosts.users": "users: 20000..20099", "door": "door: /srv/tierml",
	"program": "program: {url: s3://BUCKET/tierml, sha256: 7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730}",
	"url":     "url: https://example.org/tierml", "sha256": "sha256: 7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
	"checkpoints": "checkpoints: s3://BUCKET/checkpoints", "catalog": "catalog: catalog.csv", "disk": "disk: 16GB",
	"listen":     "listen: 10.0.0.5:7071",
	"controller": "controller: {instance: i-0123456789abcdef0}", "instance": "instance: i-0123456789abcdef0",
	"port": "port: 7071", "tunnel": "tunnel: ssh -N -L {local}:localhost:{port} controller.example.com",
	"token": "token: ssh controller.example.com sudo cat /var/lib/tierml/token", "role": "role: tierml-controller",
	"flops_per_vcpu": "flops_per_vcpu: 1G",
	"local.prices":   "prices: data/aws-us-west-1a-c3-2014.csv.gz",
	"local.catalog":  "catalog: data/aws-ondemand-us-west-1-2015-04-02.csv", "local.rules": "rules: ec2-2017",
	"local.start": "start: 2014-04-01T00:00:00Z", "local.flops_per_vcpu": "flops_per_vcpu: 400k",
	"local.script[]": "at: 6h with do: kill", "at": "at: 6h", "do": "do: kill", "target": "target: oldest",
	"for": "for: 1h", "of": "of: c3.xlarge", "boot": "boot: 500ms", "notice": "notice: 4s",
}

var listIndex = pattern.Of(`\[[0-9]+\]`)

// example shows how a field is written, including the field itself.
func example(path string) string {
	path = listIndex().ReplaceAllString(path, "[]")
	if text, ok := exampleOf(path); ok {
		return text
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	for _, key := range []string{path, name} {
		if text, ok := examples[key]; ok {
			return text
		}
	}
	return name + ": 1"
}

// foreign are names from other tools, and the corresponding fields here.
var foreign = map[string]string{
	"accelerators": "write gpu: L40S:1, below resources", "gpus": "write gpu: L40S:1, below resources", "accelerator": "write gpu: L40S:1, below resources",
	"availability_zones": "write zones, below resources", "commands": "write them in run",
	"instance_type": "write type, below resources.any_of", "instance_types": "write resources.any_of",
	"infra":      "write cloud",
	"max_hourly": "write max_price, below resources",
	"nodes":      "write count, below resources",
	"num_nodes":  "write count, below resources",
	"regions":    "write zones, below resources",
	"region":     "write zones, below resources",
	"command":    "write run", "script": "write run", "entrypoint": "write run", "args": "write them in run",
	"secret": "write secrets", "environment": "write envs", "env_vars": "write envs", "parallelism": "write count, below resources",
	"container":              "write image",
	"docker":                 "write image",
	"max_restarts_on_errors": "write retries", "retry": "write retries", "array": "write tasks", "checkpoint_dir": "write state: {dir: ckpt}",
	"spot_policy":    "remove it: resources are always spot machines, reliable are always on-demand",
	"use_spot":       "remove it: resources are always spot machines, reliable are always on-demand",
	"timeout":        "write max_duration",
	"instances":      "write count, below resources",
	"on_demand":      "write reliable",
	"backends":       "write cloud",
	"learning_rate":  "write it below train.params, by the name that the application uses",
	"epochs":         "write clocks, below train",
	"iterations":     "write clocks, below train",
	"workers":        "write count, below resources",
	"time_limit":     "write max_duration",
	"spot":           "remove it: resources are always spot machines, reliable are always on-demand",
	"bid":            "write max_price, below resources",
	"image_id":       "write image, of a container; that of machines is ec2.image or gce.image",
	"file_mounts":    "put the files into workdir, or fetch them in setup; a built-in application's data is train.data",
	"disk_size":      "remove it: machines keep nothing on disk",
	"idle_duration":  "write orphan_after",
	"price":          "write max_price",
	"instance_count": "write count, below resources",
}

// unknown reports a field that does not exist and suggests the intended one: one with a similar name here, one of this name elsewhere, or
// one that has this name in other tools.
func (d *decoder) unknown(path string, key *yaml.Node, fields []member) {
	if len(d.faults) == mostFaults {
		d.more++
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	field := join(path, key.Value)
	if key.Value == "cpu" && path == "resources" { // vcpu, of all machines together, is as near
		d.fault(field, key, "unknown field", "did you mean cpus?")
		return
	}
	if near := spelling.Nearest(key.Value, names); near != "" {
		d.meant[join(path, near)] = true
		d.fault(field, key, "unknown field", fmt.Sprintf("did you mean %s?", near))
		return
	}
	var elsewhere []string
	for _, known := range Fields() {
		if known != field && known[strings.LastIndexByte(known, '.')+1:] == key.Value {
			elsewhere = append(elsewhere, known)
		}
	}
	if len(elsewhere) > 0 {
		slices.SortStableFunc(elsewhere, func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") })
		d.fault(field, key, "does not belong here", "there is "+orList(elsewhere))
		return
	}
	if hint, ok := foreign[key.Value]; ok {
		d.fault(field, key, "unknown field", hint)
		return
	}
	slices.Sort(names)
	d.fault(field, key, "unknown field", "the fields here are "+strings.Join(names, ", "))
}

// Fields lists every field of a job file by its path, in the order of the structs: "resources.any_of[].type".
func Fields() []string { return fieldPaths("", reflect.ValueOf(&Job{}).Elem()) }

func fieldPaths(prefix string, v reflect.Value) []string {
	var paths []string
	for _, m := range membersOf(v) {
		path, ft := join(prefix, m.name), m.value.Type()
		paths = append(paths, path)
		switch {
		case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct && !isScalar(ft.Elem()):
			paths = append(paths, fieldPaths(path+"[]", reflect.New(ft.Elem()).Elem())...)
		case !isScalar(ft) && ft.Kind() == reflect.Struct:
			paths = append(paths, fieldPaths(path, m.value)...)
		}
	}
	return paths
}
