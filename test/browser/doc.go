// Package browser tests pages in the browser that people use. It knows pages only from outside: their content, not how it was made.
package browser
