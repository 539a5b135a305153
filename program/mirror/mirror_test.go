package mirror

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
)

// key names the program whose state the tests save.
const key = "rank-0"

func open(t *testing.T, store string, attempt uint64) (*Mirror, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), Config{Store: store, Key: key, Attempt: attempt, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return m, dir
}

func put(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func random(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func save(t *testing.T, m *Mirror, what Selection) Saved {
	t.Helper()
	s, err := m.Save(t.Context(), what)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree returns a directory's content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		below, err2 := filepath.Rel(dir, full)
		if err := errors.Join(err, err2); err != nil || below == "." {
			return err
		}
		switch {
		case d.IsDir():
			all[below] = "folder"
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(full)
			all[below] = "-> " + to
			return err
		default:
			text, err := os.ReadFile(full)
			all[below] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func equal(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("there is %s too", name)
		}
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %.40q (%d bytes), want %.40q (%d bytes)", name, got[name], len(got[name]), text, len(text))
		}
	}
}

// stores returns a directory and an object store.
func stores(t *testing.T) map[string]string {
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return map[string]string{"files": filepath.Join(t.TempDir(), "store"), "s3": "s3://data/runs/a?region=us-east-1&endpoint=" + server.URL}
}

func TestSaveAndRestore(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			m, dir := open(t, store, 1)
			big := random(t, 2*chunkBytes+17)
			put(t, dir, "model/weights", big)
			put(t, dir, "model/empty", nil)
			put(t, dir, "log.txt", []byte("one\n"))
			put(t, dir, "half.tmp", []byte("x"))
			put(t, dir, "folder.part/x", []byte("x"))
			if err := errors.Join(os.Symlink("model/weights", filepath.Join(dir, "latest")), os.Symlink("/etc/passwd", filepath.Join(dir, "away")),
				os.Mkdir(filepath.Join(dir, "empty"), 0o755), os.Chmod(filepath.Join(dir, "log.txt"), 0o750)); err != nil {
				t.Fatal(err)
			}
			long := time.Now().Add(-time.Hour).Truncate(time.Second)
			if err := os.Chtimes(filepath.Join(dir, "log.txt"), long, long); err != nil {
				t.Fatal(err)
			}
			first := save(t, m, Selection{Step: 7})
			if first.Bytes != int64(len(big))+4 || first.Sent != first.Bytes || first.Left != nil || !slices.Equal(first.Foreign, []string{"away"}) {
				t.Errorf("%+v", first)
			}
			want := tree(t, dir)
			for _, name := range []string{"half.tmp", "folder.part", "folder.part/x", "away"} {
				delete(want, name)
			}
			// One byte in the last chunk: only this chunk is sent.
			big[2*chunkBytes+1]++
			put(t, dir, "model/weights", big)
			if second := save(t, m, Selection{Step: 8}); second.Sent != 17 {
				t.Errorf("%+v", second)
			}
			other, there := open(t, store, 2)
			put(t, there, "old", []byte("x"))
			manifest, err := other.Restore(t.Context(), first.Manifest, first.Digest)
			if err != nil {
				t.Fatal(err)
			}
			if manifest.Step != 7 {
				t.Errorf("step %d", manifest.Step)
			}
			equal(t, tree(t, there), want)
			if info, err := os.Stat(filepath.Join(there, "log.txt")); err != nil || info.Mode().Perm() != 0o750 || !info.ModTime().Equal(long) {
				t.Errorf("%v %v", info, err)
			}
			// Restored data is not sent again.
			if again := save(t, other, Selection{}); again.Sent != 0 || again.Bytes != first.Bytes {
				t.Errorf("%+v", again)
			}
		})
	}
}

// Two generations stay; data used only by older ones is deleted, including what earlier attempts left.
func TestGenerations(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			m, dir := open(t, store, 1)
			var saved []Saved
			for i := range 4 {
				put(t, dir, "model", []byte(fmt.Sprint("generation ", i)))
				put(t, dir, "same", []byte("same"))
				saved = append(saved, save(t, m, Selection{}))
			}
			if err := writeAll(t.Context(), chunkName(store, key, strings.Repeat("0", 64)), []byte("left by a killed machine")); err != nil {
				t.Fatal(err)
			}
			there := func() (manifests []string, chunks int) {
				manifests, err := Manifests(t.Context(), store, key)
				objects, err2 := blob.List(t.Context(), location.Join(store, "state", key, "chunks"))
				if err := errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
				return manifests, len(objects)
			}
			manifests, chunks := there()
			if !slices.Equal(manifests, []string{saved[3].Manifest, saved[2].Manifest}) || chunks != 4 {
				t.Errorf("there are %v and %d chunks", manifests, chunks)
			}
			next, dir := open(t, store, 2)
			if _, err := next.Restore(t.Context(), saved[2].Manifest, ""); err != nil {
				t.Fatal(err)
			}
			put(t, dir, "model", []byte("another"))
			last := save(t, next, Selection{})
			// The other rank had not saved generation 3, so it continued from 2: that stays, and 3 does not count.
			manifests, chunks = there()
			if !slices.Equal(manifests, []string{last.Manifest, saved[2].Manifest}) || chunks != 3 {
				t.Errorf("there are %v and %d chunks", manifests, chunks)
			}
		})
	}
}

func TestDamagedChunkFallsBack(t *testing.T) {
	store := t.TempDir()
	m, dir := open(t, store, 1)
	put(t, dir, "model", []byte("first"))
	first := save(t, m, Selection{Step: 1})
	put(t, dir, "model", []byte("second"))
	second := save(t, m, Selection{Step: 2})
	manifest, err := Read(t.Context(), store, key, second.Manifest, second.Digest)
	if err != nil {
		t.Fatal(err)
	}
	chunk := chunkName(store, key, manifest.Files[0].Chunks[0])
	for _, damage := range []func() error{
		func() error { return os.WriteFile(chunk, []byte("secomd"), 0o644) },
		func() error { return os.WriteFile(chunk, []byte("sec"), 0o644) },
		func() error { return os.Remove(chunk) },
		func() error { return os.WriteFile(manifestName(store, key, second.Manifest), []byte("{"), 0o644) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		next, there := open(t, store, 2)
		put(t, there, "model", []byte("before"))
		if _, err := next.Restore(t.Context(), second.Manifest, second.Digest); !errors.Is(err, ErrDamaged) {
			t.Errorf("error %v", err)
		}
		equal(t, tree(t, there), map[string]string{"model": "before"})
		got, note, err := next.RestoreNewest(t.Context(), second.Manifest, second.Digest)
		if err != nil || got.Name() != first.Manifest || !strings.Contains(note, "was restored instead") {
			t.Errorf("%v %q %v", got, note, err)
		}
		equal(t, tree(t, there), map[string]string{"model": "first"})
	}
	if _, err := Read(t.Context(), store, key, first.Manifest, strings.Repeat("0", 64)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a manifest of another digest: %v", err)
	}
}

// Two machines both think that they are rank 0: the newer attempt wins, and its state contains nothing of the older one.
func TestNewerAttemptWins(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			old, oldDir := open(t, store, 3)
			put(t, oldDir, "model", []byte("common"))
			common := save(t, old, Selection{})
			newer, newDir := open(t, store, 4)
			if _, err := newer.Restore(t.Context(), common.Manifest, common.Digest); err != nil {
				t.Fatal(err)
			}
			put(t, oldDir, "model", []byte("of the old one"))
			if _, err := old.Save(t.Context(), Selection{}); !errors.Is(err, ErrTakenOver) || !strings.Contains(err.Error(), "attempt 4 writes the state of rank-0") {
				t.Errorf("error %v", err)
			}
			if err := old.tidy(t.Context(), nil); !errors.Is(err, ErrTakenOver) {
				t.Errorf("the old one tidies up: %v", err)
			}
			if _, err := Open(t.Context(), Config{Store: store, Key: key, Attempt: 3, Dir: oldDir}); !errors.Is(err, ErrTakenOver) {
				t.Errorf("error %v", err)
			}
			put(t, newDir, "other", []byte("of the new one"))
			last := save(t, newer, Selection{})
			third, dir := open(t, store, 5)
			if _, err := third.Restore(t.Context(), last.Manifest, last.Digest); err != nil {
				t.Fatal(err)
			}
			equal(t, tree(t, dir), map[string]string{"model": "common", "other": "of the new one"})
			// The same attempt on two machines is a mistake of the controller: one saves.
			twin, twinDir := open(t, store, 5)
			put(t, twinDir, "model", []byte("of the twin"))
			save(t, twin, Selection{})
			if _, err := third.Save(t.Context(), Selection{}); !errors.Is(err, ErrTakenOver) {
				t.Errorf("error %v", err)
			}
			// An old claim that arrives late is replaced.
			if err := writeAll(t.Context(), location.Join(store, "state", key, "claim.json"), []byte(`{"attempt":2,"writer":"late"}`)); err != nil {
				t.Fatal(err)
			}
			save(t, twin, Selection{})
		})
	}
}

// A file that changes while it is read keeps its former version.
func TestTornFiles(t *testing.T) {
	m, dir := open(t, t.TempDir(), 1)
	put(t, dir, "quiet", []byte("quiet"))
	put(t, dir, "busy", []byte("former"))
	save(t, m, Selection{})
	n := 0
	changing := func() map[string]bool { // is called before and after files are read
		n++
		put(t, dir, "busy", []byte(strings.Repeat("x", n)))
		put(t, dir, "new", []byte(strings.Repeat("y", n)))
		return nil
	}
	saved := save(t, m, Selection{Open: changing})
	if !slices.Equal(saved.Left, []string{"busy", "new"}) {
		t.Errorf("left: %v", saved.Left)
	}
	var names []string
	for _, e := range m.Latest().Files {
		names = append(names, fmt.Sprint(e.Path, e.Size))
	}
	if !slices.Equal(names, []string{"busy6", "quiet5"}) {
		t.Errorf("saved: %v", names)
	}
	if saved := save(t, m, Selection{}); saved.Left != nil || len(m.Latest().Files) != 3 {
		t.Errorf("%+v %+v", saved, m.Latest().Files)
	}
}

func TestOpenFiles(t *testing.T) {
	m, dir := open(t, t.TempDir(), 1)
	for _, name := range []string{"writing", "appending", "database", "closed"} {
		put(t, dir, name, []byte(name))
	}
	long := time.Now().Add(-time.Minute)
	if err := os.Chtimes(filepath.Join(dir, "database"), long, long); err != nil {
		t.Fatal(err)
	}
	opened := map[string]bool{filepath.Join(dir, "writing"): false, filepath.Join(dir, "appending"): true, filepath.Join(dir, "database"): false}
	saved := save(t, m, Selection{Open: func() map[string]bool {
		file, err := os.OpenFile(filepath.Join(dir, "appending"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteString("more")
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		return opened
	}})
	if !slices.Equal(saved.Left, []string{"writing"}) || len(m.Latest().Files) != 3 {
		t.Errorf("%+v %+v", saved, m.Latest().Files)
	}
	if got := m.Latest().Files[0]; got.Path != "appending" || got.Size < 9 {
		t.Errorf("%+v", got)
	}
}

func TestMarker(t *testing.T) {
	m, dir := open(t, t.TempDir(), 1)
	m.config.Marker = "DONE"
	at := time.Now().Add(-time.Hour)
	write := func(names ...string) { // each a second after the one before
		for _, name := range names {
			at = at.Add(time.Second)
			put(t, dir, name, []byte(name+at.String()))
			if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	saved := func(want ...string) {
		t.Helper()
		save(t, m, Selection{})
		var names []string
		for _, e := range m.Latest().Files {
			names = append(names, e.Path)
		}
		if !slices.Equal(names, want) {
			t.Errorf("saved: %v; want %v", names, want)
		}
	}
	of := func(name string) []string {
		for _, e := range m.Latest().Files {
			if e.Path == name {
				return e.Chunks
			}
		}
		return nil
	}
	write("runs/step-1/model", "runs/step-1/DONE", "runs/step-2/model", "loose")
	saved("runs", "runs/step-1", "runs/step-1/DONE", "runs/step-1/model")
	write("runs/step-2/DONE")
	saved("runs", "runs/step-1", "runs/step-1/DONE", "runs/step-1/model", "runs/step-2", "runs/step-2/DONE", "runs/step-2/model")

	// A file that is rewritten after the marker, completely or not, counts with the next marker: until then the earlier versions of all
	// files count.
	before := of("runs/step-2/model")
	write("runs/step-2/model", "runs/step-2/optimizer")
	saved("runs", "runs/step-1", "runs/step-1/DONE", "runs/step-1/model", "runs/step-2", "runs/step-2/DONE", "runs/step-2/model")
	if !slices.Equal(of("runs/step-2/model"), before) {
		t.Error("a file that is newer than its marker was saved")
	}
	// The same while the marker is absent; a directory that is gone is gone.
	if err := errors.Join(os.Remove(filepath.Join(dir, "runs/step-2/DONE")), os.RemoveAll(filepath.Join(dir, "runs/step-1"))); err != nil {
		t.Fatal(err)
	}
	saved("runs", "runs/step-2", "runs/step-2/DONE", "runs/step-2/model")
	write("runs/step-2/DONE")
	saved("runs", "runs/step-2", "runs/step-2/DONE", "runs/step-2/model", "runs/step-2/optimizer")
	if slices.Equal(of("runs/step-2/model"), before) {
		t.Error("the file was not saved with its new marker")
	}
	// One marker for the whole folder.
	write("DONE")
	saved("DONE", "loose", "runs", "runs/step-2", "runs/step-2/DONE", "runs/step-2/model", "runs/step-2/optimizer")
	write("loose")
	loose := of("loose")
	saved("DONE", "loose", "runs", "runs/step-2", "runs/step-2/DONE", "runs/step-2/model", "runs/step-2/optimizer")
	if !slices.Equal(of("loose"), loose) {
		t.Error("a file that is newer than the folder's marker was saved")
	}
}

// A directory that changes constantly while it is read counts as it was saved before, not as a mixture.
func TestMarkerWhileItIsWritten(t *testing.T) {
	m, dir := open(t, t.TempDir(), 1)
	m.config.Marker = "DONE"
	past := time.Now().Add(-time.Hour)
	write := func(text string) {
		past = past.Add(time.Second)
		for _, name := range []string{"a", "b", "DONE"} {
			put(t, dir, name, []byte(text))
			if err := os.Chtimes(filepath.Join(dir, name), past, past); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("0")
	save(t, m, Selection{})
	first := m.Latest().Files
	n := 0
	save(t, m, Selection{Open: func() map[string]bool { n++; write(strconv.Itoa(n)); return nil }}) // it is called while files are read
	for i, e := range m.Latest().Files {
		if n < 2 || !slices.Equal(e.Chunks, first[i].Chunks) {
			t.Errorf("%s of another moment was saved, after %d changes", e.Path, n)
		}
	}
}

func TestStrangeManifests(t *testing.T) {
	sum := strings.Repeat("0", 64)
	for name, text := range map[string]string{
		"outside":  `{"version":1,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"../x","mode":420}]}`,
		"absolute": `{"version":1,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"/x","mode":420}]}`,
		"link":     `{"version":1,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"x","mode":420,"link":"../../etc"}]}`,
		"size":     `{"version":1,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"x","mode":420,"size":9999999999}]}`,
		"negative": `{"version":1,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"x","mode":420,"size":-9999999999}]}`,
		"chunk":    `{"version":1,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"x","mode":420,"size":1,"chunks":["../../../../etc/passwd"]}]}`,
		"key":      `{"version":1,"key":"rank-1","attempt":1,"number":1}`,
		"at":       `{"version":2,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"x","mode":420,"size":1,"chunks":["` + sum + `"],"pack":1,"at":-1}],"packs":["` + sum + `"]}`,
		"no pack":  `{"version":2,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"x","mode":420,"size":1,"chunks":["` + sum + `"],"pack":1}]}`,
		"pack":     `{"version":2,"key":"rank-0","attempt":1,"number":1,"packs":["../../../../etc/passwd"]}`,
		"through":  `{"version":1,"key":"rank-0","attempt":1,"number":1,"files":[{"path":"a","mode":420,"link":"b/.."},{"path":"a/../../x","mode":420}]}`,
	} {
		store := t.TempDir()
		put(t, filepath.Dir(manifestName(store, key, "00000001-00000001")), "00000001-00000001.json", []byte(text))
		m, _ := open(t, store, 2)
		if _, err := m.Restore(t.Context(), "00000001-00000001", ""); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	store := t.TempDir()
	put(t, filepath.Dir(manifestName(store, key, "00000001-00000001")), "00000001-00000001.json", []byte(`{"version":3,"key":"rank-0","attempt":1,"number":1}`))
	if _, err := Read(t.Context(), store, key, "00000001-00000001", ""); err == nil || !strings.Contains(err.Error(), "use the version of TierML that saved it") {
		t.Errorf("error %v", err)
	}
	for _, bad := range []string{"", "../x", "a/b", ".x"} {
		if _, err := Open(t.Context(), Config{Store: store, Key: bad, Attempt: 1}); err == nil {
			t.Errorf("the key %q was taken", bad)
		}
	}
}

// A writer that is killed in the middle of a save leaves the generation before it whole.
func TestKillInTheMiddleOfASave(t *testing.T) {
	if dir := os.Getenv("TIERML_MIRROR_CHILD"); dir != "" {
		mirrorUntilKilled(t, dir)
		return
	}
	base := t.TempDir()
	store := filepath.Join(base, "store")
	for round := range 3 {
		child := exec.Command(os.Args[0], "-test.run", "^TestKillInTheMiddleOfASave$")
		child.Env = append(os.Environ(), "TIERML_MIRROR_CHILD="+base, fmt.Sprintf("TIERML_MIRROR_ATTEMPT=%d", 2*round+1))
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// It sends a byte after each save; the next save is then in progress.
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(round*7+3) * time.Millisecond) // a moment during the save: any will do
		_ = child.Process.Signal(syscall.SIGKILL)
		_ = child.Wait() // it was killed
		names, err := Manifests(t.Context(), store, key)
		if err != nil || len(names) == 0 {
			t.Fatalf("%v %v", names, err)
		}
		m, dir := open(t, store, uint64(2*round+2))
		if _, err := m.Restore(t.Context(), names[0], ""); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		// Every file has the number of its generation.
		var number byte
		for name, text := range tree(t, dir) {
			if number == 0 {
				number = text[0]
			}
			if strings.Trim(text, string(rune(number))) != "" {
				t.Errorf("round %d: %s is of another generation", round, name)
			}
		}
		if number == 0 {
			t.Error("nothing was restored")
		}
	}
}

func mirrorUntilKilled(t *testing.T, base string) {
	var attempt uint64
	if _, err := fmt.Sscan(os.Getenv("TIERML_MIRROR_ATTEMPT"), &attempt); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, fmt.Sprint("work-", attempt))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := Open(context.Background(), Config{Store: filepath.Join(base, "store"), Key: key, Attempt: attempt, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for n := byte('1'); ; n = '1' + (n-'0')%9 {
		for f := range 4 {
			put(t, dir, fmt.Sprint("file-", f), []byte(strings.Repeat(string(rune(n)), 3*chunkBytes/2)))
		}
		if _, err := m.Save(context.Background(), Selection{}); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.Write([]byte("."))
	}
}

// A machine without a controller keeps saving, and what its controller had recorded is deleted: the newest existing state counts.
func TestRestoresWhatAnOrphanSaved(t *testing.T) {
	store := t.TempDir()
	m, dir := open(t, store, 1)
	var written Saved
	for step := range int64(5) {
		put(t, dir, "model", []byte{byte('0' + step)})
		if s := save(t, m, Selection{Step: step}); step == 0 {
			written = s
		}
	}
	if _, err := Read(t.Context(), store, key, written.Manifest, written.Digest); !errors.Is(err, ErrDamaged) {
		t.Fatalf("the first of five generations is still there: %v", err)
	}
	next, there := open(t, store, 2)
	manifest, note, err := next.RestoreNewest(t.Context(), written.Manifest, written.Digest)
	if err != nil || manifest.Step != 4 || note == "" {
		t.Fatalf("%+v %q %v", manifest, note, err)
	}
	equal(t, tree(t, there), map[string]string{"model": "4"})
}
