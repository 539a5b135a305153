package config

import (
	"reflect"

	"github.com/tierml/tierml/internal/location"
)

// Files returns the fields of a job that name files of this host, with the places of their values: they move with the job to another host.
func (j *Job) Files() map[string]*string {
	files := map[string]*string{}
	collectFiles("", reflect.ValueOf(j).Elem(), files)
	return files
}

func collectFiles(prefix string, v reflect.Value, files map[string]*string) {
	for _, f := range membersOf(v) {
		path, value := join(prefix, f.name), f.value
		switch {
		case f.has("path"):
			if name := value.Addr().Interface().(*string); *name != "" && !location.IsURL(*name) {
				files[path] = name
			}
		case value.Kind() == reflect.Struct && !isScalar(value.Type()):
			collectFiles(path, value, files)
		}
	}
}
