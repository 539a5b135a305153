package mirror

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// However many entries are encoded concurrently, the text is that of the whole.
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

// An entry is encoded as by json.Marshal, whatever its fields and name.
func FuzzEntry(f *testing.F) {
	f.Add("a/b", uint32(0o644), int64(1_700_000_000_123_000_000), int64(12), "c", 1, int64(3), "", false)
	f.Add("z", uint32(0), int64(0), int64(1), "", 0, int64(0), "", false)
	f.Add("a<\"\\\x7f\xff\u2028é", uint32(0o755), int64(-1), int64(0), "c", 0, int64(0), "to", true)
	f.Add("]&\n", uint32(7), int64(1), int64(5), "&", 2, int64(-1), "", false)
	f.Fuzz(func(t *testing.T, path string, mode uint32, changed, size int64, chunk string, pack int, at int64, link string, dir bool) {
		e := Entry{Path: path, Mode: mode, Changed: time.Unix(0, changed).UTC(), Size: size, Chunks: []string{chunk}, Pack: pack, At: at, Link: link, Dir: dir}
		if changed == 0 {
			e.Changed = time.Time{}
		}
		want, err := json.Marshal(e)
		got, err2 := e.append(nil)
		if string(got) != string(want) || (err == nil) != (err2 == nil) {
			t.Errorf("%s, %v; want %s, %v", got, err2, want, err)
		}
	})
}
