package jobmanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Secrets of a job come with its submission and are in a file of their own beside it (mode 0600), until the job has finished: its run may be
// started again at any time. The run's process gets the folder, and machines get them from it.

// secretsFile is in a job's directory.
const secretsFile = "secrets.json"

// SecretsVariable names the folder with a submitted job's secrets to its process. Their values are never taken from the environment, which is
// the job server's.
const SecretsVariable = "TIERML_SECRETS_IN"

// keepSecrets writes the file, if there is anything to keep.
func keepSecrets(dir string, secrets map[string]string) error {
	if len(secrets) == 0 {
		return nil
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return fmt.Errorf("keeping the job's secrets: %w", err)
	}
	return replaceFile(filepath.Join(dir, secretsFile), text)
}

// Secrets finds the values of a job's secrets: those that were submitted, where the environment says so, else the environment's.
func Secrets(environment func(string) (string, bool)) (func(string) (string, bool), error) {
	dir, submitted := environment(SecretsVariable)
	if !submitted {
		return environment, nil
	}
	values := map[string]string{}
	text, err := os.ReadFile(filepath.Join(dir, secretsFile))
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
