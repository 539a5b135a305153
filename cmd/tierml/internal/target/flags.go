// Package target finds the runs that a command addresses: Runs is one interface to the folders of this host and the jobs of a job server,
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

// Flags selects the job server of a command, if any.
type Flags struct {
	URL, tokenFile, authority string
	Elsewhere                 bool // the run cannot be on this host
}

// NoServer selects this host, overriding the settings.
const NoServer = "none"

// Flags adds the flags that select a job server.
func (r *Flags) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.URL, "server", "", "use a job server: its `URL`, a job file or a cluster's name; none: runs of this host")
	cmd.Flags().StringVar(&r.tokenFile, "token-file", "",
		"the `file` with the job server's token (default: the variable TIERML_TOKEN, or tierml/token in the configuration directory)")
	cmd.Flags().StringVar(&r.authority, "server-ca", "", "trust the certificates in this `file` instead of the system's")
	for flag, setting := range map[string][]string{ // in any order: they are independent
		"server":     {"server.url", "TIERML_SERVER"},
		"token-file": {"server.token-file", "TIERML_SERVER_TOKEN_FILE"},
		"server-ca":  {"server.ca", "TIERML_SERVER_CA"},
	} {
		_ = cmd.Flags().SetAnnotation(flag, settings.SharedSetting, setting) // the flag exists
	}
}

// PresentName maps former names of flags to present ones.
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

// direct returns a client of the job server at a URL.
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

// tokenVariable holds the token itself, for systems without files.
const tokenVariable = "TIERML_TOKEN"

// tokenNamed reports whether the user has named a token.
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
