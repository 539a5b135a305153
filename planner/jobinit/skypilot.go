package jobinit

import (
	"fmt"
	"maps"
	"strings"
)

// spotHere explains what differs for an on-demand task.
const spotHere = "machines are spot machines here, and on demand while none can be had; policy: on-demand buys no spot machines"

// anotherMachine explains what follows an eviction, whatever a file chooses.
const anotherMachine = "evictions are always followed by another machine, which the policy chooses"

// skyPilot translates a task (docs.skypilot.co, *Task YAML*). Its scripts run without -e and -u.
func (t *translator) skyPilot() {
	setup, run := lines(t.take("setup")), lines(t.take("run"))
	switch workdir := t.take("workdir").(type) {
	case string:
		t.workdir(workdir)
	case map[string]any:
		clone := "git clone " + words(workdir["url"]) + " ."
		if ref := words(workdir["ref"]); ref != "" {
			clone += "\ngit checkout " + ref
		}
		setup = clone + "\n" + setup
	}
	asked := t.take("resources")
	resources, is := asked.(map[string]any)
	if !is && asked != nil { // a list of alternatives
		resources = map[string]any{"any_of": asked}
	}
	count := t.take("num_nodes")
	t.resources(resources, count, t.skyMachine)
	t.envs(t.take("envs"), false)
	t.envs(t.take("secrets"), true)
	variables := map[string]string{
		"SKYPILOT_NODE_RANK": "${TIERML_RANK:-0}", "SKYPILOT_NUM_NODES": "${TIERML_RANKS:-1}", "SKYPILOT_NODE_IPS": "${MASTER_ADDR:-127.0.0.1}",
		"SKYPILOT_TASK_ID": "$TIERML_RUN", "SKYPILOT_JOB_RANK": "${TIERML_TASK:-0}", "SKYPILOT_NUM_JOBS": "${TIERML_TASKS:-1}", "SKYPILOT_NUM_GPUS_PER_NODE": gpuCount(t.gpus),
	}
	if strings.Contains(setup+run, "SKYPILOT_NODE_IPS") {
		t.note("SKYPILOT_NODE_IPS has the address of rank 0 alone; programs find the others through it")
	}
	if setup != "" {
		t.put("setup", "set +eu +o pipefail   # as SkyPilot runs it\n"+exports(setup, variables)+setup)
	}
	if t.runs = run != ""; t.runs {
		t.put("run", "set +eu +o pipefail   # as SkyPilot runs it\n"+exports(run, variables)+run)
	}
	if strings.Contains(setup+run, "SKYPILOT_NUM_JOBS") {
		t.note("SKYPILOT_NUM_JOBS: write tasks: N, and the program is an array of N tasks")
	}
}

func (t *translator) skyMachine(r map[string]any) (machines []map[string]any) {
	machine := map[string]any{}
	if v := t.atLeast("resources.cpus", taken(r, "cpus")); v != "" {
		machine["cpus"] = v
	}
	if v := t.atLeast("resources.memory", taken(r, "memory")); v != "" {
		machine["memory"] = withUnit(v, "GB")
	}
	if v := words(taken(r, "instance_type")); v != "" {
		machine["type"] = v
	}
	for _, field := range []string{"accelerators", "gpus"} {
		for _, gpu := range accelerators(taken(r, field)) {
			m := map[string]any{"gpu": gpu}
			if t.gpus == "" {
				t.gpus = gpu
			}
			maps.Copy(m, machine)
			machines = append(machines, m)
		}
	}
	if len(machines) == 0 && len(machine) > 0 {
		machines = append(machines, machine)
	}
	if spot, is := taken(r, "use_spot").(bool); !is || !spot {
		t.once("use_spot: " + spotHere)
	}
	for _, field := range []string{"any_of", "ordered", "candidates"} {
		list, _ := taken(r, field).([]any)
		if field == "ordered" && list != nil {
			t.note("resources.ordered: the order is not kept; the cheapest is bought")
		}
		var of []map[string]any
		for _, entry := range list {
			if entry, is := entry.(map[string]any); is {
				of = append(of, t.skyMachine(entry)...)
			}
		}
		machines = product(machines, of)
	}
	for _, field := range []string{"job_recovery", "spot_recovery"} {
		recovery := taken(r, field)
		if m, is := recovery.(map[string]any); is {
			if most := taken(m, "max_restarts_on_errors"); most != nil {
				t.put("retries", most)
			}
			for _, key := range sortedKeys(m) {
				t.once(fmt.Sprintf("resources.%s.%s: %s; %s", field, key, words(m[key]), anotherMachine))
			}
		} else if recovery != nil {
			t.once(fmt.Sprintf("resources.%s: %s; %s", field, words(recovery), anotherMachine))
		}
	}
	if image := words(taken(r, "image_id")); strings.HasPrefix(image, "docker:") {
		t.put("image", strings.TrimPrefix(image, "docker:"))
	} else if image != "" {
		t.note("resources.image_id: name a machine image as ec2.image or gce.image")
	}
	t.where(r, "cloud", "infra", "region", "zone")
	t.ports(taken(r, "ports"))
	return machines
}

// accelerators parses V100, V100:8, {V100: 8, L4: 1} and lists of these.
func accelerators(from any) (all []string) {
	switch from := from.(type) {
	case map[string]any:
		for _, name := range sortedKeys(from) {
			if n := words(from[name]); n != "" { // {V100:8} without a space is a name in YAML
				name += ":" + n
			}
			all = append(all, name)
		}
	case []any:
		for _, one := range from {
			all = append(all, accelerators(one)...)
		}
	case nil:
	default:
		all = append(all, words(from))
	}
	return all
}
