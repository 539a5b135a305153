package cloudname

import "testing"

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{"My Run_1": "my-run-1", "": "t", "9lives": "t9lives", "--": "t", "abcdefgh-ij": "abcdefgh", "Grün": "gr-n"} {
		if got := Slug(name, 9); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// Parts are kept apart, and the digests are those of existing machines: SHA-256 in base 32.
func TestDigest(t *testing.T) {
	if Digest(10, "a", "bc") == Digest(10, "ab", "c") || Digest(6, "demo") != Digest(10, "demo")[:6] || Digest(10, "demo") != "fklvc3bvjn" {
		t.Error(Digest(10, "demo"))
	}
}
