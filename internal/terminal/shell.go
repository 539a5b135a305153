package terminal

import "strings"

// ShellLine formats words as they are typed into a shell.
func ShellLine(words []string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = word
		if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=./:@,") != "" {
			out[i] = Quoted(word)
		}
	}
	return strings.Join(out, " ")
}

// Quoted puts a word in the shell's single quotes.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
