package jobinit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
)

// dstack translates a task (dstack.ai/docs, *task*).
func (t *translator) dstack() {
	run := lines(t.take("commands"))
	if image := words(t.take("image")); image != "" {
		t.put("image", image)
	}
	if dir := words(t.take("working_dir")); dir != "" {
		run = "cd " + dir + "\n" + run
	}
	files, _ := t.from["files"].([]any)
	repos, _ := t.from["repos"].([]any)
	if len(files)+len(repos) > 0 && !slices.ContainsFunc(append(files, repos...), func(f any) bool { return strings.Contains(words(f), "..") || strings.Contains(words(f), ":") }) {
		t.workdir(".")
		t.note("files, repos: the folder of the file travels as workdir")
		t.take("files")
		t.take("repos")
	}
	resources, _ := t.take("resources").(map[string]any)
	if resources == nil {
		resources = map[string]any{}
	}
	for _, field := range []string{"instance_types", "max_price", "backends", "regions", "availability_zones", "fleets"} {
		if v := t.take(field); v != nil {
			resources[field] = v
		}
	}
	t.resources(resources, t.take("nodes"), t.dstackMachine)
	switch words(t.take("spot_policy")) {
	case "spot":
	case "on-demand":
		t.put("policy", "on-demand")
	default: // dstack's default is on-demand
		t.once("spot_policy: " + spotHere)
	}
	if most := words(t.take("max_duration")); most != "" && most != "off" {
		t.put("max_duration", withUnit(most, "s"))
	}
	if priority := t.take("priority"); priority != nil {
		t.put("priority", priority)
	}
	if t.take("retry") != nil {
		t.note("retry: evictions are always followed by another machine; retries: N is for failures of the program")
	}
	t.ports(t.take("ports"))
	t.envs(t.take("env"), false)
	if t.runs = run != ""; t.runs {
		t.put("run", exports(run, map[string]string{
			"DSTACK_NODE_RANK": "${TIERML_RANK:-0}", "DSTACK_NODES_NUM": "${TIERML_RANKS:-1}", "DSTACK_MASTER_NODE_IP": "${MASTER_ADDR:-127.0.0.1}",
			"DSTACK_NODES_IPS": "${MASTER_ADDR:-127.0.0.1}", "DSTACK_RUN_NAME": "$TIERML_RUN", "DSTACK_GPUS_PER_NODE": gpuCount(t.gpus), "DSTACK_GPUS_NUM": "$((" + gpuCount(t.gpus) + "*${TIERML_RANKS:-1}))",
		})+run)
	}
	for _, name := range []string{"DSTACK_NODES_IPS", "DSTACK_MPI_HOSTFILE"} {
		if strings.Contains(run, name) {
			t.note("%s: a program knows the address of rank 0 alone, as MASTER_ADDR; others find each other through it", name)
		}
	}
	if strings.Contains(run, "${{") {
		t.note("commands: ${{ ... }} of dstack is not replaced; write what is meant")
	}
}

func (t *translator) dstackMachine(r map[string]any) (machines []map[string]any) {
	machine := map[string]any{}
	if v := t.atLeast("resources.cpu", taken(r, "cpu")); v != "" {
		machine["cpus"] = v
	}
	if v := t.atLeast("resources.memory", taken(r, "memory")); v != "" {
		machine["memory"] = v
	}
	switch gpu := taken(r, "gpu").(type) {
	case nil:
	case map[string]any:
		names, _ := gpu["name"].([]any)
		if names == nil {
			names = []any{gpu["name"]}
		}
		for _, name := range names {
			parts := []string{words(name), t.atLeast("resources.gpu.memory", gpu["memory"]), t.atLeast("resources.gpu.count", gpu["count"])}
			parts[1] = strings.TrimSuffix(parts[1], "+")
			if parts[2] == "" {
				parts[2] = "1"
			}
			machines = append(machines, map[string]any{"gpu": strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ":")})
		}
		for _, key := range sortedKeys(gpu) {
			if !slices.Contains([]string{"name", "memory", "count"}, key) {
				t.once("resources.gpu." + key + ": " + noCounterpart(key))
			}
		}
	default:
		for _, name := range strings.Split(words(gpu), ",") {
			machines = append(machines, map[string]any{"gpu": strings.Join(slices.DeleteFunc(t.gpuParts(name), func(s string) bool { return s == "" }), ":")})
		}
	}
	if len(machines) > 0 {
		t.gpus = words(machines[0]["gpu"])
	}
	machines = product([]map[string]any{machine}, machines)
	var of []map[string]any
	if types, is := taken(r, "instance_types").([]any); is {
		for _, name := range types {
			of = append(of, map[string]any{"type": words(name)})
		}
	}
	if v := words(taken(r, "shm_size")); v != "" {
		t.once("resources.shm_size: " + v + "; a program has its machine's /dev/shm")
	}
	t.where(r, "backends", "regions", "availability_zones")
	machines = product(machines, of)
	if len(machines) == 1 && len(machines[0]) == 0 {
		return nil
	}
	return machines
}

var ofSize = pattern.Of(`^[0-9.]+ ?[KMGT]B`)

// gpuParts parses dstack's short forms: A100, 24GB, A100:40GB:2, 1..8, 16GB..24GB.
func (t *translator) gpuParts(text string) []string {
	var name, memory, count string
	for _, part := range strings.Split(strings.TrimSpace(text), ":") {
		switch {
		case ofSize().MatchString(part):
			memory = strings.TrimSuffix(t.atLeast("resources.gpu", part), "+")
		case part != "" && strings.Trim(part, "0123456789.") == "":
			count = t.atLeast("resources.gpu", part)
		default:
			name = part
		}
	}
	if count == "" {
		count = "1"
	}
	return []string{name, memory, count}
}

// atLeast converts "4..", "4..8" and {count: 4..} to 4+. A job has no upper ends.
func (t *translator) atLeast(field string, from any) string {
	if m, is := from.(map[string]any); is {
		if arch := words(m["arch"]); arch != "" {
			t.once(field + ".arch: " + arch + "; write the types with it")
		}
		from = m["count"]
		if from == nil {
			from = map[string]any{"min": m["min"], "max": m["max"]}
		}
	}
	text := words(from)
	if m, is := from.(map[string]any); is {
		text = words(m["min"]) + ".." + words(m["max"])
	}
	least, most, is := strings.Cut(text, "..")
	if !is || least == most {
		return least
	}
	if most != "" {
		t.once(fmt.Sprintf("%s: %s; there is no upper end here, and the cheapest machine that is enough is bought", field, text))
	}
	if least == "" {
		return ""
	}
	return least + "+"
}
