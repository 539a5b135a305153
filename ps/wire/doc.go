// Package wire is the data plane on TCP: frames, the messages in them, and the two ends of a connection. A Link
// sends requests and matches their answers; Serve accepts connections and gives each request to a Handler.
// README.md draws every byte.
//
// It knows nothing about what a message means: partition ownership, clocks and retries belong to ps/server and
// ps/client.
package wire
