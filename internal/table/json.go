package table

import (
	"encoding/json"
	"io"
)

// WriteJSON prints a value in the format of -o json.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
