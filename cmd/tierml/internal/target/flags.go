// Package target finds the runs that a command means: Runs has the folders of this host and the jobs of a job server as one thing,
// chosen by the flag --server. It prints nothing.
package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/settings"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/jobmanager/call"
)

// Flags is the job server that a command means, if any.
type Flags struct {
	URL, tokenFile, authority string
	Elsewhere                 bool // a run of this host is not meant
}

// NoServer is this host, whatever the settings say.
const NoServer = "none"

// Flags gives a command the choice of a job server.
func (r *Flags) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.URL, "server", "", "use a job server: its `URL`, a job file or a cluster's name; none: runs of this host")
	cmd.Flags().StringVar(&r.tokenFile, "token-file", "",
		"the `file` with the job server's token (default: the variable TIERML_TOKEN, or tierml/token in the configuration directory)")
	cmd.Flags().StringVar(&r.authority, "server-ca", "", "trust the certificates in this `file` instead of the system's")
	for flag, setting := range map[string][]string{ // any order: each by itself
		"server":     {"server.url", "TIERML_SERVER"},
		"token-file": {"server.token-file", "TIERML_SERVER_TOKEN_FILE"},
		"server-ca":  {"server.ca", "TIERML_SERVER_CA"},
	} {
		_ = cmd.Flags().SetAnnotation(flag, settings.SharedSetting, setting) // it exists
	}
}

// PresentName lets flags have their former names, too.
func PresentName(_ *pflag.FlagSet, flag string) pflag.NormalizedName {
	switch flag {
	case "controller":
		flag = "server"
	case "controller-ca":
		flag = "server-ca"
	case "trace":
		flag = "prices"
	case "model":
		flag = "into"
	}
	return pflag.NormalizedName(flag)
}

// direct reaches the job server at an address.
func (r *Flags) direct() (*call.Client, error) {
	token, err := r.token()
	if err != nil {
		return nil, cli.Usage(err)
	}
	client, err := call.New(r.URL, token, r.authority)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--server: %w", err))
	}
	return client, nil
}

// tokenVariable holds the token itself, where there are no files.
const tokenVariable = "TIERML_TOKEN"

// tokenNamed says that the user has named a token.
func (r *Flags) tokenNamed() bool {
	_, ok := os.LookupEnv(tokenVariable)
	return ok || r.tokenFile != ""
}

func (r *Flags) token() (access.Token, error) {
	if text, ok := os.LookupEnv(tokenVariable); ok && r.tokenFile == "" {
		token, err := access.Parse(text)
		if err != nil {
			err = fmt.Errorf("%s: %w; copy it from the file `token` of the job server's directory", tokenVariable, err)
		}
		return token, err
	}
	path := r.tokenFile
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return access.Token{}, errors.New("--server needs its token: name its file with --token-file")
		}
		path = filepath.Join(dir, "tierml", "token")
	}
	token, err := access.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("--server needs its token: %s does not exist; copy the file `token` of the job server's directory there, or name it "+
			"with --token-file", path)
	}
	return token, err
}
