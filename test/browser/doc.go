// Package browser looks at what people look at, in the browser that they use. It knows pages from outside only: what
// is shown, not how it was made.
package browser
