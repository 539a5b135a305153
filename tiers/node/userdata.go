package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// UserData is what the controller passes to a machine at its launch: everything the node knows before it reaches the controller.
type UserData struct {
	Controller string `json:"controller"` // host:port of the control plane
	Token      string `json:"token"`      // sent in the Hello
	Job        string `json:"job"`        // servers and clients of other jobs are refused
	Listen     string `json:"listen"`     // host:port of the data plane; port 0 = any free port
	// VCPU is the machine type's number, from the controller; 0 = count the processors here. Machines that are local processes cannot
	// count: each sees the whole host.
	VCPU int `json:"vcpu,omitempty"`
	// Authority is the hash of the run's certificate authority: all connections use TLS then, and Token is sent once, to get a certificate.
	// Empty = plaintext, which only works on one host.
	Authority string `json:"authority,omitempty"`
	// SplitBytes bounds the memory for the data of splits; 0 = no limit.
	SplitBytes int64 `json:"split_bytes,omitempty"`
}

// ownMachine reports whether the agent has a machine for itself.
func (u UserData) ownMachine() bool { return u.VCPU == 0 }

// Encode returns the form that DecodeUserData reads.
func (u UserData) Encode() string {
	data, err := json.Marshal(u)
	if err != nil {
		panic(err) // strings and a number can always be marshalled
	}
	return string(data)
}

// ScriptMark begins the line of a machine's first script that holds its user data, as a comment.
const ScriptMark = "# tierml: "

// InScript finds the user data in a script that starts the agent; other user data is returned unchanged.
func InScript(data string) string {
	if !strings.HasPrefix(data, "#!") {
		return data
	}
	for line := range strings.Lines(data) {
		if own, found := strings.CutPrefix(line, ScriptMark); found {
			return own
		}
	}
	return data
}

// DecodeUserData reads a machine's user data. Unknown fields are an error: the controller is newer then.
func DecodeUserData(data string) (UserData, error) {
	var u UserData
	decoder := json.NewDecoder(strings.NewReader(InScript(data)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&u); err != nil {
		return UserData{}, fmt.Errorf("reading the user data, which should be JSON: %w", err)
	}
	if decoder.More() {
		return UserData{}, errors.New("reading the user data: something follows the JSON object")
	}
	for _, field := range []struct{ name, value string }{
		{"controller", u.Controller}, {"token", u.Token}, {"job", u.Job}, {"listen", u.Listen},
	} {
		if field.value == "" {
			return UserData{}, fmt.Errorf("reading the user data: %q is missing", field.name)
		}
	}
	return u, nil
}
