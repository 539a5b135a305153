package jobrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/config"
)

// SecretsVariable names the folder with a submitted job's secrets to its process. Their values are never taken from the environment, which is
// the job server's.
const SecretsVariable = "TIERML_SECRETS_IN"

// SecretsFile is in that folder.
const SecretsFile = "secrets.json"

// ReadSecrets returns the values of a job's secrets; missing ones are reported as faults of the job file.
func ReadSecrets(job *config.Job) (map[string]string, error) {
	values, err := Secrets(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return job.ReadSecrets(values)
}

// Secrets finds the values of a job's secrets: submitted ones, if the environment says so, otherwise the environment's.
func Secrets(environment func(string) (string, bool)) (func(string) (string, bool), error) {
	dir, submitted := environment(SecretsVariable)
	if !submitted {
		return environment, nil
	}
	values := map[string]string{}
	text, err := os.ReadFile(filepath.Join(dir, SecretsFile))
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the job's secrets: %w", err)
	}
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}, nil
}
