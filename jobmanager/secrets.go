package jobmanager

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/tierml/tierml/jobrun"
)

// Secrets of a job come with its submission and are in a file of their own next to it (mode 0600), until the job has finished: its run may
// be restarted at any time. The run's process gets the folder, and machines get the secrets from the run.

// keepSecrets writes the file, if there is anything to keep.
func keepSecrets(dir string, secrets map[string]string) error {
	if len(secrets) == 0 {
		return nil
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return fmt.Errorf("keeping the job's secrets: %w", err)
	}
	return replaceFile(filepath.Join(dir, jobrun.SecretsFile), text)
}
