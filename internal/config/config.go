// Package config reads the job file: strict YAML, where every mistake is one clear error with file, line
// and what to write instead.
package config
