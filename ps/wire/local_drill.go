//go:build drill

package wire

const alwaysTCP = true
