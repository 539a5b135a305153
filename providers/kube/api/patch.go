package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Patchable are the fields of a pod that a job may extend. All other fields, and what TierML sets in these, are its
// own.
var Patchable = []string{
	"metadata.annotations", "metadata.labels",
	"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity",
	"spec.containers[].env", "spec.containers[].envFrom", "spec.containers[].imagePullPolicy", "spec.containers[].volumeMounts",
	"spec.dnsConfig", "spec.hostAliases", "spec.imagePullSecrets", "spec.nodeSelector", "spec.priorityClassName", "spec.runtimeClassName",
	"spec.schedulerName", "spec.securityContext.supplementalGroups", "spec.tolerations", "spec.topologySpreadConstraints", "spec.volumes",
}

// container is the name of a pod's only container.
const container = "agent"

// CheckPatch returns why a patch cannot be merged into pods; empty = it can be.
func CheckPatch(patch map[string]any) string {
	if problem := locked("", patch); problem != "" {
		return problem
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return "is no part of a pod: " + err.Error()
	}
	var pod corev1.Pod
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&pod); err != nil {
		return "is no part of a pod: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	for _, names := range []map[string]string{pod.Labels, pod.Annotations} {
		for name := range names { // any order: one is enough
			if strings.HasPrefix(name, labelPrefix) {
				return name + " is TierML's own"
			}
		}
	}
	if len(pod.Spec.Containers) > 1 || len(pod.Spec.Containers) == 1 && pod.Spec.Containers[0].Name != container {
		return "may have one container, called " + container
	}
	return ""
}

// locked returns a field that is TierML's own.
func locked(path string, value any) string {
	if slices.Contains(Patchable, path) || path == "spec.containers[].name" {
		return ""
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if problem := locked(strings.TrimPrefix(path+"."+name, "."), value[name]); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		if path == "spec.containers" {
			for _, item := range value {
				if problem := locked(path+"[]", item); problem != "" {
					return problem
				}
			}
			return ""
		}
	}
	return path + " is TierML's own"
}

// patched returns a pod with the job's patch merged. The patch has passed CheckPatch.
func patched(pod *corev1.Pod, patch map[string]any) (*corev1.Pod, error) {
	if len(patch) == 0 {
		return pod, nil
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(merge(whole, patch)); err != nil {
		return nil, err
	}
	done := &corev1.Pod{}
	return done, json.Unmarshal(text, done)
}

// merge adds one tree to another: lists are concatenated, and for conflicting values the first stays. Containers, of
// which there is one, are merged.
func merge(into, from map[string]any) map[string]any {
	for name, more := range from { // any order: keys are independent
		switch has := into[name].(type) {
		case nil:
			into[name] = more
		case map[string]any:
			if more, is := more.(map[string]any); is {
				into[name] = merge(has, more)
			}
		case []any:
			if more, is := more.([]any); is && name == "containers" && len(more) > 0 {
				merge(has[0].(map[string]any), more[0].(map[string]any))
			} else {
				into[name] = append(has, more...)
			}
		}
	}
	return into
}
