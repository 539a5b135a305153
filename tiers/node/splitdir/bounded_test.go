package splitdir

import (
	"io"
	"strings"
	"testing"
)

// A split is read only up to the maximum size of a split.
func TestSplitsAreBounded(t *testing.T) {
	for left, want := range map[int64]string{5: "", 4: "cut the data into more splits"} {
		_, err := io.ReadAll(&bounded{ReadCloser: io.NopCloser(strings.NewReader("seven")), left: left})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("5 bytes of %d: %v", left, err)
		}
	}
}
