package mirror

import (
	"encoding/json"
	"fmt"
	"testing"
)

// However many entries are encoded at the same time, the text is that of the whole.
func TestEncode(t *testing.T) {
	m := &Manifest{Version: newest, Key: `a "files":[`, Attempt: 3, Number: 1, Files: []Entry{}, Packs: []string{"p"}}
	for n := range 20 {
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := m.encode()
		if err != nil || string(text) != string(want) {
			t.Errorf("%d entries: %v: %s, want %s", n, err, text, want)
		}
		m.Files = append(m.Files, Entry{Path: fmt.Sprintf(`] "files":[ %d`, n), Size: 1, Chunks: []string{"c"}})
	}
}
