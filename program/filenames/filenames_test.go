package filenames

import "testing"

func TestTemporaryNamesAreNotComplete(t *testing.T) {
	for name, want := range map[string]bool{
		"model.pt": true, "DONE": true, "tmp": true, "a.tmp.pt": true,
		"model.pt.tmp": false, "model.part": false, ".tierml-7": false,
	} {
		if got := Complete(name); got != want {
			t.Errorf("Complete(%q) = %t", name, got)
		}
	}
}
